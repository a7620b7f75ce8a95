// GORM: a schema that it makes and changes, and what it asks. Prints a line for each exercise.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

type Company struct {
	ID   uint
	Name string `gorm:"uniqueIndex;size:50;not null;comment:what it is called"`
}

type Employee struct {
	gorm.Model
	Name      string `gorm:"index:grown_up,where:age > 10"`
	Age       int    `gorm:"check:age >= 0;default:18"`
	Born      *time.Time
	Salary    float64 `gorm:"type:numeric(10,2)"`
	CompanyID *uint
	Company   *Company `gorm:"constraint:OnUpdate:CASCADE,OnDelete:SET NULL"`
	Data      []byte
	Languages []Language `gorm:"many2many:employee_languages"`
}

type Language struct {
	ID   uint
	Code string `gorm:"uniqueIndex"`
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(ok bool, what any) {
	if !ok {
		panic(fmt.Sprint("unexpected: ", what))
	}
}

func migrates(db *gorm.DB) {
	for range 2 {
		must(db.AutoMigrate(&Company{}, &Language{}, &Employee{}))
	}
	columns, err := db.Migrator().ColumnTypes(&Employee{})
	must(err)
	expect(len(columns) == 10, columns)
	indexes, err := db.Migrator().GetIndexes(&Employee{})
	must(err)
	expect(len(indexes) == 2, indexes)
	must(db.Migrator().AlterColumn(&Company{}, "Name"))
}

func creates(db *gorm.DB) {
	e := Employee{Name: "a", Salary: 3.5, Company: &Company{Name: "c"}, Languages: []Language{{Code: "ko"}}}
	must(db.Create(&e).Error)
	many := make([]Employee, 300)
	for i := range many {
		many[i].Name = fmt.Sprint(i)
	}
	must(db.CreateInBatches(many, 100).Error)
	upsert := clause.OnConflict{
		Columns:   []clause.Column{{Name: "name"}},
		DoUpdates: clause.AssignmentColumns([]string{"name"}),
	}
	must(db.Clauses(upsert).Create(&Company{Name: "c"}).Error)
	var found []Employee
	query := db.Preload("Languages").Joins("Company").Where("employees.age > ?", 3)
	must(query.Order("employees.id").Limit(3).Find(&found).Error)
	expect(len(found) == 3 && found[0].Company.Name == "c" && found[0].Languages[0].Code == "ko", found)
	must(db.Where("name = ?", "5").Delete(&Employee{}).Error)
	var count int64
	must(db.Model(&Employee{}).Count(&count).Error)
	expect(count == 300, count)
}

func transactions(db *gorm.DB) {
	must(db.Transaction(func(t *gorm.DB) error {
		t.SavePoint("s")
		expect(t.Exec("SELECT 1 / 0").Error != nil, "a division by zero")
		t.RollbackTo("s")
		var e Employee
		lock := clause.Locking{Strength: "UPDATE", Options: "NOWAIT"}
		if err := t.Clauses(lock).First(&e, "name = ?", "a").Error; err != nil {
			return err
		}
		return t.Model(&e).Update("age", gorm.Expr("age + 1")).Error
	}))
	back := errors.New("back")
	err := db.Transaction(func(t *gorm.DB) error {
		must(t.Where("name = ?", "a").Delete(&Employee{}).Error)
		return back
	})
	expect(err == back, err)
	var e Employee
	must(db.First(&e, "name = ?", "a").Error)
	expect(e.Age == 19, e)
}

func main() {
	settings := &gorm.Config{Logger: logger.Default.LogMode(logger.Silent)}
	where := "host=127.0.0.1 user=postgres dbname=postgres port=" + os.Args[1]
	db, err := gorm.Open(postgres.Open(where), settings)
	must(err)
	for _, e := range []struct {
		name string
		run  func(*gorm.DB)
	}{{"migrates", migrates}, {"creates", creates}, {"transactions", transactions}} {
		func() {
			defer func() {
				if why := recover(); why != nil {
					fmt.Printf("FAIL %s: %s\n", e.name, strings.Join(strings.Fields(fmt.Sprint(why)), " "))
				}
			}()
			e.run(db)
			fmt.Println("ok", e.name)
		}()
	}
}
