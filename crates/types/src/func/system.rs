//! Functions that describe the database's objects and what is around a session. What they give is the
//! database's to say ([`crate::objects::Objects::call`]).

macro_rules! asked {
    ($($num:literal $constant:ident $name:literal ($($arg:ident),*) -> $ret:ident $(, $attr:ident)*;)*) => {
        functions! {
            $($num $constant $name ($($arg),*) -> $ret =
                |c| told(c, id::$constant), stable $(, $attr)*;)*
        }
    };
}

/// NULL says that there is no such process, of those that signal one.
fn told(c: &mut super::Call<'_>, function: super::FuncId) -> crate::SqlResult<crate::Value> {
    let found = c.ctx.objects.call(function, c.args)?;
    match function {
        id::PG_CANCEL_BACKEND | id::PG_TERMINATE_BACKEND if found.is_null() => {
            let message = format!("PID {} is not a PostgreSQL server process", c.int4(0)?);
            c.ctx.caller.warn("01000", message);
            Ok(crate::Value::Bool(false))
        }
        _ => Ok(found),
    }
}

asked! {
    1160 FORMAT_TYPE "format_type" (Oid, Int4) -> Text, lax;
    1161 PG_GET_EXPR "pg_get_expr" (PgNodeTree, Oid) -> Text;
    1162 PG_GET_EXPR_PRETTY "pg_get_expr" (PgNodeTree, Oid, Bool) -> Text;
    1163 PG_GET_CONSTRAINTDEF "pg_get_constraintdef" (Oid) -> Text;
    1164 PG_GET_CONSTRAINTDEF_PRETTY "pg_get_constraintdef" (Oid, Bool) -> Text;
    1165 PG_GET_INDEXDEF "pg_get_indexdef" (Oid) -> Text;
    1166 PG_GET_INDEXDEF_COLUMN "pg_get_indexdef" (Oid, Int4, Bool) -> Text;
    1167 PG_GET_FUNCTIONDEF "pg_get_functiondef" (Oid) -> Text;
    1168 PG_GET_FUNCTION_ARGUMENTS "pg_get_function_arguments" (Oid) -> Text;
    1169 PG_GET_FUNCTION_IDENTITY_ARGUMENTS "pg_get_function_identity_arguments" (Oid) -> Text;
    1170 PG_GET_FUNCTION_RESULT "pg_get_function_result" (Oid) -> Text;
    1171 PG_GET_FUNCTION_ARG_DEFAULT "pg_get_function_arg_default" (Oid, Int4) -> Text;
    1172 PG_GET_FUNCTION_SQLBODY "pg_get_function_sqlbody" (Oid) -> Text;
    1173 PG_GET_USERBYID "pg_get_userbyid" (Oid) -> Name;
    1174 PG_GET_TRIGGERDEF "pg_get_triggerdef" (Oid) -> Text;
    1175 PG_GET_TRIGGERDEF_PRETTY "pg_get_triggerdef" (Oid, Bool) -> Text;
    1176 PG_GET_RULEDEF "pg_get_ruledef" (Oid) -> Text;
    1177 PG_GET_RULEDEF_PRETTY "pg_get_ruledef" (Oid, Bool) -> Text;
    1178 PG_GET_STATISTICSOBJDEF "pg_get_statisticsobjdef" (Oid) -> Text;
    1179 PG_GET_STATISTICSOBJDEF_COLUMNS "pg_get_statisticsobjdef_columns" (Oid) -> Text;
    1180 PG_GET_PARTKEYDEF "pg_get_partkeydef" (Oid) -> Text;
    1181 PG_GET_PARTITION_CONSTRAINTDEF "pg_get_partition_constraintdef" (Oid) -> Text;
    1182 PG_TABLE_IS_VISIBLE "pg_table_is_visible" (Oid) -> Bool;
    1183 PG_TYPE_IS_VISIBLE "pg_type_is_visible" (Oid) -> Bool;
    1184 PG_FUNCTION_IS_VISIBLE "pg_function_is_visible" (Oid) -> Bool;
    1185 PG_OPERATOR_IS_VISIBLE "pg_operator_is_visible" (Oid) -> Bool;
    1186 PG_COLLATION_IS_VISIBLE "pg_collation_is_visible" (Oid) -> Bool;
    1187 PG_OPCLASS_IS_VISIBLE "pg_opclass_is_visible" (Oid) -> Bool;
    1188 PG_OPFAMILY_IS_VISIBLE "pg_opfamily_is_visible" (Oid) -> Bool;
    1189 PG_CONVERSION_IS_VISIBLE "pg_conversion_is_visible" (Oid) -> Bool;
    1190 PG_STATISTICS_OBJ_IS_VISIBLE "pg_statistics_obj_is_visible" (Oid) -> Bool;
    1191 PG_TS_CONFIG_IS_VISIBLE "pg_ts_config_is_visible" (Oid) -> Bool;
    1192 PG_TS_DICT_IS_VISIBLE "pg_ts_dict_is_visible" (Oid) -> Bool;
    1193 PG_TS_PARSER_IS_VISIBLE "pg_ts_parser_is_visible" (Oid) -> Bool;
    1194 PG_TS_TEMPLATE_IS_VISIBLE "pg_ts_template_is_visible" (Oid) -> Bool;
    1195 PG_ENCODING_TO_CHAR "pg_encoding_to_char" (Int4) -> Name;
    1196 PG_CHAR_TO_ENCODING "pg_char_to_encoding" (Name) -> Int4;
    1197 GETDATABASEENCODING "getdatabaseencoding" () -> Name;
    1198 PG_CLIENT_ENCODING "pg_client_encoding" () -> Name;
    1199 PG_RELATION_SIZE "pg_relation_size" (Regclass) -> Int8, volatile;
    1200 PG_RELATION_SIZE_FORK "pg_relation_size" (Regclass, Text) -> Int8, volatile;
    1201 PG_TOTAL_RELATION_SIZE "pg_total_relation_size" (Regclass) -> Int8, volatile;
    1202 PG_TABLE_SIZE "pg_table_size" (Regclass) -> Int8, volatile;
    1203 PG_INDEXES_SIZE "pg_indexes_size" (Regclass) -> Int8, volatile;
    1204 PG_DATABASE_SIZE_NAME "pg_database_size" (Name) -> Int8, volatile;
    1205 PG_DATABASE_SIZE "pg_database_size" (Oid) -> Int8, volatile;
    1206 PG_TABLESPACE_SIZE_NAME "pg_tablespace_size" (Name) -> Int8, volatile;
    1207 PG_TABLESPACE_SIZE "pg_tablespace_size" (Oid) -> Int8, volatile;
    1208 PG_TABLESPACE_LOCATION "pg_tablespace_location" (Oid) -> Text;
    1209 PG_RELATION_FILENODE "pg_relation_filenode" (Regclass) -> Oid;
    1210 PG_RELATION_IS_PUBLISHABLE "pg_relation_is_publishable" (Regclass) -> Bool;
    1211 OBJ_DESCRIPTION "obj_description" (Oid, Name) -> Text;
    1212 OBJ_DESCRIPTION_OF_ANY "obj_description" (Oid) -> Text;
    1213 COL_DESCRIPTION "col_description" (Oid, Int4) -> Text;
    1214 SHOBJ_DESCRIPTION "shobj_description" (Oid, Name) -> Text;
    1218 PG_BACKEND_PID "pg_backend_pid" () -> Int4;
    1219 PG_IS_IN_RECOVERY "pg_is_in_recovery" () -> Bool, volatile;
    1222 TO_REGCLASS "to_regclass" (Text) -> Regclass;
    1223 TO_REGTYPE "to_regtype" (Text) -> Regtype;
    1224 TO_REGPROC "to_regproc" (Text) -> Regproc;
    1225 TO_REGPROCEDURE "to_regprocedure" (Text) -> Regprocedure;
    1226 TO_REGOPER "to_regoper" (Text) -> Regoper;
    1227 TO_REGOPERATOR "to_regoperator" (Text) -> Regoperator;
    1228 TO_REGNAMESPACE "to_regnamespace" (Text) -> Regnamespace;
    1229 TO_REGROLE "to_regrole" (Text) -> Regrole;
    1230 TO_REGCOLLATION "to_regcollation" (Text) -> Regcollation;
    1231 HAS_TABLE_PRIVILEGE_NAME "has_table_privilege" (Text, Text) -> Bool;
    1232 HAS_TABLE_PRIVILEGE "has_table_privilege" (Oid, Text) -> Bool;
    1233 HAS_TABLE_PRIVILEGE_USER_NAME "has_table_privilege" (Name, Text, Text) -> Bool;
    1234 HAS_TABLE_PRIVILEGE_USER "has_table_privilege" (Name, Oid, Text) -> Bool;
    1235 HAS_ANY_COLUMN_PRIVILEGE_NAME "has_any_column_privilege" (Text, Text) -> Bool;
    1236 HAS_ANY_COLUMN_PRIVILEGE "has_any_column_privilege" (Oid, Text) -> Bool;
    1237 HAS_COLUMN_PRIVILEGE_NAMES "has_column_privilege" (Text, Text, Text) -> Bool;
    1238 HAS_COLUMN_PRIVILEGE_NUMBER "has_column_privilege" (Oid, Int2, Text) -> Bool;
    1239 HAS_COLUMN_PRIVILEGE_NAME "has_column_privilege" (Oid, Text, Text) -> Bool;
    1240 HAS_SCHEMA_PRIVILEGE_NAME "has_schema_privilege" (Text, Text) -> Bool;
    1241 HAS_SCHEMA_PRIVILEGE "has_schema_privilege" (Oid, Text) -> Bool;
    1242 HAS_SCHEMA_PRIVILEGE_USER_NAME "has_schema_privilege" (Name, Text, Text) -> Bool;
    1243 HAS_SCHEMA_PRIVILEGE_USER "has_schema_privilege" (Name, Oid, Text) -> Bool;
    1244 HAS_DATABASE_PRIVILEGE_NAME "has_database_privilege" (Text, Text) -> Bool;
    1245 HAS_DATABASE_PRIVILEGE "has_database_privilege" (Oid, Text) -> Bool;
    1246 HAS_DATABASE_PRIVILEGE_USER_NAME "has_database_privilege" (Name, Text, Text) -> Bool;
    1247 HAS_DATABASE_PRIVILEGE_USER "has_database_privilege" (Name, Oid, Text) -> Bool;
    1248 HAS_FUNCTION_PRIVILEGE_NAME "has_function_privilege" (Text, Text) -> Bool;
    1249 HAS_FUNCTION_PRIVILEGE "has_function_privilege" (Oid, Text) -> Bool;
    1250 HAS_TYPE_PRIVILEGE_NAME "has_type_privilege" (Text, Text) -> Bool;
    1251 HAS_TYPE_PRIVILEGE "has_type_privilege" (Oid, Text) -> Bool;
    1252 HAS_LANGUAGE_PRIVILEGE_NAME "has_language_privilege" (Text, Text) -> Bool;
    1253 HAS_LANGUAGE_PRIVILEGE "has_language_privilege" (Oid, Text) -> Bool;
    1254 HAS_SEQUENCE_PRIVILEGE_NAME "has_sequence_privilege" (Text, Text) -> Bool;
    1255 HAS_SEQUENCE_PRIVILEGE "has_sequence_privilege" (Oid, Text) -> Bool;
    1256 HAS_TABLESPACE_PRIVILEGE_NAME "has_tablespace_privilege" (Text, Text) -> Bool;
    1257 HAS_TABLESPACE_PRIVILEGE "has_tablespace_privilege" (Oid, Text) -> Bool;
    1258 PG_HAS_ROLE_NAME "pg_has_role" (Name, Text) -> Bool;
    1259 PG_HAS_ROLE "pg_has_role" (Oid, Text) -> Bool;
    1260 PG_HAS_ROLE_USER "pg_has_role" (Name, Oid, Text) -> Bool;
    1261 PG_HAS_ROLE_NAMES "pg_has_role" (Name, Name, Text) -> Bool;
    1264 PG_IS_OTHER_TEMP_SCHEMA "pg_is_other_temp_schema" (Oid) -> Bool;
    1265 PG_MY_TEMP_SCHEMA "pg_my_temp_schema" () -> Oid;
    1269 ROW_SECURITY_ACTIVE "row_security_active" (Oid) -> Bool;
    1270 ROW_SECURITY_ACTIVE_NAME "row_security_active" (Text) -> Bool;
    1272 PG_GET_VIEWDEF "pg_get_viewdef" (Oid) -> Text;
    1273 PG_GET_VIEWDEF_PRETTY "pg_get_viewdef" (Oid, Bool) -> Text;
    1274 PG_GET_VIEWDEF_WIDTH "pg_get_viewdef" (Oid, Int4) -> Text;
    1275 PG_GET_VIEWDEF_NAME "pg_get_viewdef" (Text) -> Text;
    1276 PG_GET_VIEWDEF_NAME_PRETTY "pg_get_viewdef" (Text, Bool) -> Text;
    1277 PG_TRIGGER_DEPTH "pg_trigger_depth" () -> Int4, volatile;
    1279 PG_JIT_AVAILABLE "pg_jit_available" () -> Bool, volatile;
    1280 INET_SERVER_ADDR "inet_server_addr" () -> Text;
    1281 INET_SERVER_PORT "inet_server_port" () -> Int4;
    1282 INET_CLIENT_ADDR "inet_client_addr" () -> Text;
    1283 INET_CLIENT_PORT "inet_client_port" () -> Int4;
    1500 PG_RELATION_IS_UPDATABLE "pg_relation_is_updatable" (Regclass, Bool) -> Int4;
    1501 PG_COLUMN_IS_UPDATABLE "pg_column_is_updatable" (Regclass, Int2, Bool) -> Bool;
    1502 VIEW_CHECK "$view_check" (Oid) -> Text;
    1660 NAMED "$named" (AnyElement) -> AnyElement;
    1740 HAS_TABLE_PRIVILEGE_ROLE "has_table_privilege" (Oid, Oid, Text) -> Bool;
    1741 HAS_TABLE_PRIVILEGE_ROLE_NAME "has_table_privilege" (Oid, Text, Text) -> Bool;
    1742 HAS_ANY_COLUMN_PRIVILEGE_USER "has_any_column_privilege" (Name, Oid, Text) -> Bool;
    1743 HAS_ANY_COLUMN_PRIVILEGE_USER_NAME "has_any_column_privilege" (Name, Text, Text) -> Bool;
    1744 HAS_COLUMN_PRIVILEGE_USER_NAMES "has_column_privilege" (Name, Text, Text, Text) -> Bool;
    1745 HAS_COLUMN_PRIVILEGE_USER_NUMBER "has_column_privilege" (Name, Oid, Int2, Text) -> Bool;
    1746 HAS_SEQUENCE_PRIVILEGE_USER "has_sequence_privilege" (Name, Oid, Text) -> Bool;
    1747 HAS_SEQUENCE_PRIVILEGE_USER_NAME "has_sequence_privilege" (Name, Text, Text) -> Bool;
    1748 HAS_FUNCTION_PRIVILEGE_USER "has_function_privilege" (Name, Oid, Text) -> Bool;
    1749 HAS_FUNCTION_PRIVILEGE_USER_NAME "has_function_privilege" (Name, Text, Text) -> Bool;
    1750 HAS_TYPE_PRIVILEGE_USER "has_type_privilege" (Name, Oid, Text) -> Bool;
    1751 HAS_TYPE_PRIVILEGE_USER_NAME "has_type_privilege" (Name, Text, Text) -> Bool;
    1752 PG_HAS_ROLE_ROLE "pg_has_role" (Oid, Oid, Text) -> Bool;
    1753 PG_HAS_ROLE_ROLE_NAME "pg_has_role" (Oid, Name, Text) -> Bool;
    1754 ACLDEFAULT "acldefault" (QuotedChar, Oid) -> AclitemArray;
    1755 MAKEACLITEM "makeaclitem" (Oid, Oid, Text, Bool) -> Aclitem;
    1756 ACL_GRANTORS "$acl_grantors" (AclitemArray) -> OidArray;
    1757 ACL_GRANTEES "$acl_grantees" (AclitemArray) -> OidArray;
    1758 ACL_WORDS "$acl_words" (AclitemArray) -> TextArray;
    1759 ACL_OPTIONS "$acl_options" (AclitemArray) -> BoolArray;
    1760 OPTION_NAMES "$option_names" (TextArray) -> TextArray;
    1761 OPTION_VALUES "$option_values" (TextArray) -> TextArray;
    1820 PG_CANCEL_BACKEND "pg_cancel_backend" (Int4) -> Bool, volatile, asks;
    1821 PG_TERMINATE_BACKEND "pg_terminate_backend" (Int4) -> Bool, volatile, asks;
    1822 PG_BLOCKING_PIDS "pg_blocking_pids" (Int4) -> Int4Array, volatile;
    1823 PG_POSTMASTER_START_TIME "pg_postmaster_start_time" () -> Timestamptz;
    1824 PG_CONF_LOAD_TIME "pg_conf_load_time" () -> Timestamptz;
    1825 PG_RELOAD_CONF "pg_reload_conf" () -> Bool, volatile;
    1826 PG_STAT_STATEMENTS_RESET "pg_stat_statements_reset" () -> Any, volatile;
    1827 PG_STAT_STATEMENTS_RESET_SOME "pg_stat_statements_reset" (Oid, Oid, Int8) -> Any, volatile, lax;
    1661 PG_STAT_GET_NUMSCANS "pg_stat_get_numscans" (Oid) -> Int8, volatile;
}

/// Whether a function is one of these.
pub fn asks(function: super::FuncId) -> bool {
    DEFS.iter().any(|d| d.id == function)
}
