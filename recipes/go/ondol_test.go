package recipes

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The program is taken from the environment's ONDOL, or else from the path.
func ondol() string {
	if path := os.Getenv("ONDOL"); path != "" {
		return path
	}
	return "ondol"
}

// The folder that each test's database is a copy of.
var template string

// Makes the template once a run.
func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "ondol")
	if err != nil {
		panic(err)
	}
	template = filepath.Join(folder, "template")
	if out, err := exec.Command(ondol(), "shell", template, "-f", "../schema.sql").CombinedOutput(); err != nil {
		panic(string(out))
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// The address of a server of the test's own. It begins with a copy of the template, in some 20 milliseconds,
// keeps nothing, and ends with the test.
func database(t *testing.T) string {
	t.Helper()
	server := exec.Command(ondol(), "serve", "--temporary", "--template", template,
		"--listen", "127.0.0.1:0", "--trust-loopback")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Signal(syscall.SIGTERM)
		server.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); strings.HasPrefix(line, "postgres://") {
			return line
		}
	}
	t.Fatal("the server did not start")
	return ""
}
