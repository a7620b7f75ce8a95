--
-- PostgreSQL database dump
--

\restrict key


SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: Odd Names; Type: SCHEMA; Schema: -; Owner: postgres
--

CREATE SCHEMA "Odd Names";


ALTER SCHEMA "Odd Names" OWNER TO postgres;

--
-- Name: sales; Type: SCHEMA; Schema: -; Owner: postgres
--

CREATE SCHEMA sales;


ALTER SCHEMA sales OWNER TO postgres;

--
-- Name: SCHEMA sales; Type: COMMENT; Schema: -; Owner: postgres
--

COMMENT ON SCHEMA sales IS 'what is sold';


--
-- Name: mood; Type: TYPE; Schema: public; Owner: postgres
--

CREATE TYPE public.mood AS ENUM (
    'sad',
    'ok',
    'happy'
);


ALTER TYPE public.mood OWNER TO postgres;

--
-- Name: TYPE mood; Type: COMMENT; Schema: public; Owner: postgres
--

COMMENT ON TYPE public.mood IS 'a type';


--
-- Name: point3; Type: TYPE; Schema: public; Owner: postgres
--

CREATE TYPE public.point3 AS (
	x double precision,
	y double precision,
	label text
);


ALTER TYPE public.point3 OWNER TO postgres;

--
-- Name: positive; Type: DOMAIN; Schema: public; Owner: postgres
--

CREATE DOMAIN public.positive AS integer
	CONSTRAINT positive_check CHECK ((VALUE > 0));


ALTER DOMAIN public.positive OWNER TO postgres;

--
-- Name: DOMAIN positive; Type: COMMENT; Schema: public; Owner: postgres
--

COMMENT ON DOMAIN public.positive IS 'above zero';


--
-- Name: code; Type: DOMAIN; Schema: sales; Owner: postgres
--

CREATE DOMAIN sales.code AS character varying(10) NOT NULL DEFAULT 'x'::character varying
	CONSTRAINT upper_only CHECK (((VALUE)::text = upper((VALUE)::text)));


ALTER DOMAIN sales.code OWNER TO postgres;

--
-- Name: stage; Type: TYPE; Schema: sales; Owner: postgres
--

CREATE TYPE sales.stage AS ENUM (
    'new',
    'paid',
    'shipped'
);


ALTER TYPE sales.stage OWNER TO postgres;

--
-- Name: add2(integer, integer); Type: FUNCTION; Schema: public; Owner: postgres
--

CREATE FUNCTION public.add2(a integer, b integer) RETURNS integer
    LANGUAGE sql IMMUTABLE
    AS $$SELECT a + b$$;


ALTER FUNCTION public.add2(a integer, b integer) OWNER TO postgres;

--
-- Name: FUNCTION add2(a integer, b integer); Type: COMMENT; Schema: public; Owner: postgres
--

COMMENT ON FUNCTION public.add2(a integer, b integer) IS 'adds';


--
-- Name: add3(integer, integer, integer); Type: FUNCTION; Schema: public; Owner: postgres
--

CREATE FUNCTION public.add3(a integer, b integer DEFAULT 2, c integer DEFAULT (1 + 2)) RETURNS integer
    LANGUAGE sql IMMUTABLE
    AS $$SELECT a + b + c$$;


ALTER FUNCTION public.add3(a integer, b integer, c integer) OWNER TO postgres;

--
-- Name: total(integer[]); Type: FUNCTION; Schema: public; Owner: postgres
--

CREATE FUNCTION public.total(VARIADIC n integer[]) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    AS $$SELECT sum(x) FROM unnest(n) x$$;


ALTER FUNCTION public.total(VARIADIC n integer[]) OWNER TO postgres;

--
-- Name: count_orders(integer); Type: FUNCTION; Schema: sales; Owner: postgres
--

CREATE FUNCTION sales.count_orders(c integer) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$ SELECT count(*) FROM sales.orders WHERE customer = c $$;


ALTER FUNCTION sales.count_orders(c integer) OWNER TO postgres;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: Mixed Case; Type: TABLE; Schema: Odd Names; Owner: postgres
--

CREATE TABLE "Odd Names"."Mixed Case" (
    "Id" integer NOT NULL,
    "a ""quoted"" name" text,
    "select" boolean DEFAULT true
);


ALTER TABLE "Odd Names"."Mixed Case" OWNER TO postgres;

--
-- Name: _t01; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public._t01 (
    a integer
);


ALTER TABLE public._t01 OWNER TO postgres;

--
-- Name: down_seq; Type: SEQUENCE; Schema: public; Owner: postgres
--

CREATE SEQUENCE public.down_seq
    START WITH 50
    INCREMENT BY -5
    MINVALUE -1000
    MAXVALUE 100
    CACHE 3
    CYCLE;


ALTER TABLE public.down_seq OWNER TO postgres;

--
-- Name: orders; Type: TABLE; Schema: sales; Owner: postgres
--

CREATE TABLE sales.orders (
    id bigint NOT NULL,
    customer integer NOT NULL,
    st sales.stage DEFAULT 'new'::sales.stage NOT NULL,
    total numeric DEFAULT 0.00
);


ALTER TABLE sales.orders OWNER TO postgres;

--
-- Name: mv1; Type: MATERIALIZED VIEW; Schema: public; Owner: postgres
--

CREATE MATERIALIZED VIEW public.mv1 AS
 SELECT orders.st,
    sum(orders.total) AS total
   FROM sales.orders
  GROUP BY orders.st
  WITH NO DATA;


ALTER TABLE public.mv1 OWNER TO postgres;

--
-- Name: plain_seq; Type: SEQUENCE; Schema: public; Owner: postgres
--

CREATE SEQUENCE public.plain_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER TABLE public.plain_seq OWNER TO postgres;

--
-- Name: SEQUENCE plain_seq; Type: COMMENT; Schema: public; Owner: postgres
--

COMMENT ON SEQUENCE public.plain_seq IS 'a sequence';


--
-- Name: t20; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t20 (
    a integer DEFAULT nextval('public.plain_seq'::regclass)
);


ALTER TABLE public.t20 OWNER TO postgres;

--
-- Name: small_seq; Type: SEQUENCE; Schema: public; Owner: postgres
--

CREATE SEQUENCE public.small_seq
    AS smallint
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER TABLE public.small_seq OWNER TO postgres;

--
-- Name: small_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: postgres
--

ALTER SEQUENCE public.small_seq OWNED BY public.t20.a;


--
-- Name: t01; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t01 (
    id integer NOT NULL,
    name text NOT NULL,
    note character varying(20) DEFAULT 'none'::character varying
);


ALTER TABLE public.t01 OWNER TO postgres;

--
-- Name: TABLE t01; Type: COMMENT; Schema: public; Owner: postgres
--

COMMENT ON TABLE public.t01 IS 'the first';


--
-- Name: COLUMN t01.name; Type: COMMENT; Schema: public; Owner: postgres
--

COMMENT ON COLUMN public.t01.name IS 'its name, isn''t it';


--
-- Name: t02; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t02 (
    id integer NOT NULL,
    t01_id integer NOT NULL,
    amount numeric(12,2),
    CONSTRAINT t02_amount_check CHECK ((amount >= (0)::numeric))
);


ALTER TABLE public.t02 OWNER TO postgres;

--
-- Name: t02_id_seq; Type: SEQUENCE; Schema: public; Owner: postgres
--

CREATE SEQUENCE public.t02_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER TABLE public.t02_id_seq OWNER TO postgres;

--
-- Name: t02_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: postgres
--

ALTER SEQUENCE public.t02_id_seq OWNED BY public.t02.id;


--
-- Name: t03; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t03 (
    id bigint NOT NULL,
    at timestamp with time zone DEFAULT now(),
    d date,
    t time without time zone,
    iv interval,
    ts timestamp(3) without time zone
);


ALTER TABLE public.t03 OWNER TO postgres;

--
-- Name: t03_id_seq; Type: SEQUENCE; Schema: public; Owner: postgres
--

CREATE SEQUENCE public.t03_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER TABLE public.t03_id_seq OWNER TO postgres;

--
-- Name: t03_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: postgres
--

ALTER SEQUENCE public.t03_id_seq OWNED BY public.t03.id;


--
-- Name: t04; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t04 (
    id integer NOT NULL,
    v integer NOT NULL,
    w bigint
);


ALTER TABLE public.t04 OWNER TO postgres;

--
-- Name: t04_id_seq; Type: SEQUENCE; Schema: public; Owner: postgres
--

ALTER TABLE public.t04 ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.t04_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: t04_v_seq; Type: SEQUENCE; Schema: public; Owner: postgres
--

ALTER TABLE public.t04 ALTER COLUMN v ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.t04_v_seq
    START WITH 10
    INCREMENT BY 2
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: t05; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t05 (
    a integer,
    b integer,
    c integer GENERATED ALWAYS AS ((a + (b * 2))) STORED,
    CONSTRAINT t05_sum CHECK (((a + b) < 1000))
);


ALTER TABLE public.t05 OWNER TO postgres;

--
-- Name: CONSTRAINT t05_sum ON t05; Type: COMMENT; Schema: public; Owner: postgres
--

COMMENT ON CONSTRAINT t05_sum ON public.t05 IS 'a check';


--
-- Name: t06; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t06 (
    a integer NOT NULL,
    b text NOT NULL
);


ALTER TABLE public.t06 OWNER TO postgres;

--
-- Name: t07; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t07 (
    x integer,
    y text
);


ALTER TABLE public.t07 OWNER TO postgres;

--
-- Name: t08; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t08 (
    m public.mood DEFAULT 'ok'::public.mood,
    p public.positive,
    tags text[] DEFAULT '{}'::text[],
    nums integer[]
);


ALTER TABLE public.t08 OWNER TO postgres;

--
-- Name: t13; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t13 (
    a bytea,
    c boolean DEFAULT false NOT NULL
);


ALTER TABLE public.t13 OWNER TO postgres;

--
-- Name: t14; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t14 (
    a bigint,
    c text DEFAULT 'later'::text
);


ALTER TABLE public.t14 OWNER TO postgres;

--
-- Name: t15; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t15 (
    a oid,
    b name,
    c "char",
    d real[],
    e time with time zone
);


ALTER TABLE public.t15 OWNER TO postgres;

--
-- Name: t16; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t16 (
    id integer NOT NULL,
    name text NOT NULL,
    note character varying(20) DEFAULT 'none'::character varying
);


ALTER TABLE public.t16 OWNER TO postgres;

--
-- Name: t17; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t17 (
    a integer NOT NULL,
    b integer,
    c integer
);


ALTER TABLE public.t17 OWNER TO postgres;

--
-- Name: t18; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t18 (
    self integer NOT NULL,
    parent integer
);


ALTER TABLE public.t18 OWNER TO postgres;

--
-- Name: t19; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t19 (
    a text COLLATE pg_catalog."C",
    b text
);


ALTER TABLE public.t19 OWNER TO postgres;

--
-- Name: t21; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t21 (
    a integer NOT NULL,
    b integer
);


ALTER TABLE public.t21 OWNER TO postgres;

--
-- Name: t22; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t22 (
    a integer
);


ALTER TABLE public.t22 OWNER TO postgres;

--
-- Name: t23; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t23 (
    j timestamp without time zone DEFAULT '2020-01-01 00:00:00'::timestamp without time zone,
    k interval DEFAULT '1 day 02:00:00'::interval,
    l date DEFAULT '2020-02-03'::date
);


ALTER TABLE public.t23 OWNER TO postgres;

--
-- Name: t24; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t24 (
    a double precision DEFAULT 1.5,
    b real DEFAULT '-2'::integer,
    c numeric(5,1) DEFAULT 3.5,
    d smallint DEFAULT 7
);


ALTER TABLE public.t24 OWNER TO postgres;

--
-- Name: t25; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t25 (
    a text DEFAULT upper(('x'::text || 'y'::text)),
    b integer DEFAULT ((1 + 2) * 3)
);


ALTER TABLE public.t25 OWNER TO postgres;

--
-- Name: t26; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t26 (
    a character varying,
    b character(1),
    c character varying(5)[]
);


ALTER TABLE public.t26 OWNER TO postgres;

--
-- Name: t27; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t27 (
    a integer,
    CONSTRAINT t27_between CHECK (((a >= 1) AND (a <= 9))),
    CONSTRAINT t27_in CHECK ((a = ANY (ARRAY[1, 2, 3]))),
    CONSTRAINT t27_nn CHECK (((a IS NOT NULL) OR (a > 5)))
);


ALTER TABLE public.t27 OWNER TO postgres;

--
-- Name: t28; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t28 (
    a text,
    CONSTRAINT t28_case CHECK (
CASE
    WHEN (a = 'x'::text) THEN true
    ELSE (length(a) < 5)
END),
    CONSTRAINT t28_like CHECK (((a ~~ 'x%'::text) AND (a !~ '^y'::text)))
);


ALTER TABLE public.t28 OWNER TO postgres;

--
-- Name: t29; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t29 (
    a integer,
    b integer
);


ALTER TABLE public.t29 OWNER TO postgres;

--
-- Name: t30; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t30 (
    a integer,
    b integer,
    c text
);


ALTER TABLE public.t30 OWNER TO postgres;

--
-- Name: t31; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t31 (
    during integer
);


ALTER TABLE public.t31 OWNER TO postgres;

--
-- Name: t32; Type: TABLE; Schema: public; Owner: postgres
--

CREATE UNLOGGED TABLE public.t32 (
    a integer NOT NULL,
    b text
);


ALTER TABLE public.t32 OWNER TO postgres;

--
-- Name: t33; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t33 (
    p public.point3,
    q public.point3[]
);


ALTER TABLE public.t33 OWNER TO postgres;

--
-- Name: t34; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t34 (
);


ALTER TABLE public.t34 OWNER TO postgres;

--
-- Name: t35; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.t35 (
    r regclass,
    t regtype DEFAULT 'integer'::regtype,
    a name,
    b character varying(9) DEFAULT 'x'::character varying NOT NULL COLLATE pg_catalog."POSIX"
);


ALTER TABLE public.t35 OWNER TO postgres;

--
-- Name: v1; Type: VIEW; Schema: public; Owner: postgres
--

CREATE VIEW public.v1 AS
 SELECT t01.id,
    t01.name,
    t02.amount
   FROM (public.t01
     JOIN public.t02 ON ((t02.t01_id = t01.id)))
  WHERE (t02.amount > (10)::numeric);


ALTER TABLE public.v1 OWNER TO postgres;

--
-- Name: VIEW v1; Type: COMMENT; Schema: public; Owner: postgres
--

COMMENT ON VIEW public.v1 IS 'a view';


--
-- Name: v2; Type: VIEW; Schema: public; Owner: postgres
--

CREATE VIEW public.v2 AS
 SELECT v1.id AS a,
    count(*) AS b
   FROM public.v1
  GROUP BY v1.id
 HAVING (count(*) > 1)
  ORDER BY v1.id;


ALTER TABLE public.v2 OWNER TO postgres;

--
-- Name: v4; Type: VIEW; Schema: public; Owner: postgres
--

CREATE VIEW public.v4 AS
 SELECT t05.a,
    t05.b
   FROM public.t05
UNION ALL
 SELECT t17.a,
    t17.c AS b
   FROM public.t17;


ALTER TABLE public.v4 OWNER TO postgres;

--
-- Name: v5; Type: VIEW; Schema: public; Owner: postgres
--

CREATE VIEW public.v5 AS
 WITH w AS (
         SELECT t01.id,
            t01.name,
            t01.note
           FROM public.t01
        )
 SELECT w.id,
    w.name,
    w.note,
    ( SELECT max(t02.id) AS max
           FROM public.t02
          WHERE (t02.t01_id = w.id)) AS m
   FROM w
  WHERE (EXISTS ( SELECT 1
           FROM public.t02
          WHERE (t02.t01_id = w.id)));


ALTER TABLE public.v5 OWNER TO postgres;

--
-- Name: v6; Type: VIEW; Schema: public; Owner: postgres
--

CREATE VIEW public.v6 AS
 SELECT t08.p,
    ((t08.p)::integer + 1) AS more,
    public.add3(1, c => 2) AS three,
    public.total(VARIADIC ARRAY[1, 2]) AS total
   FROM public.t08;


ALTER TABLE public.v6 OWNER TO postgres;

--
-- Name: v7; Type: VIEW; Schema: public; Owner: postgres
--

CREATE VIEW public.v7 AS
 SELECT;


ALTER TABLE public.v7 OWNER TO postgres;

--
-- Name: customer; Type: TABLE; Schema: sales; Owner: postgres
--

CREATE TABLE sales.customer (
    id integer NOT NULL,
    email text,
    created date DEFAULT CURRENT_DATE,
    code sales.code
);


ALTER TABLE sales.customer OWNER TO postgres;

--
-- Name: lines; Type: TABLE; Schema: sales; Owner: postgres
--

CREATE TABLE sales.lines (
    order_id bigint NOT NULL,
    n smallint NOT NULL,
    what character(12),
    price real,
    qty double precision
);


ALTER TABLE sales.lines OWNER TO postgres;

--
-- Name: orders_id_seq; Type: SEQUENCE; Schema: sales; Owner: postgres
--

ALTER TABLE sales.orders ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME sales.orders_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: v3; Type: VIEW; Schema: sales; Owner: postgres
--

CREATE VIEW sales.v3 AS
 SELECT customer.id,
    customer.email,
    customer.created,
    customer.code
   FROM sales.customer
  WHERE (customer.email IS NOT NULL)
  WITH LOCAL CHECK OPTION;


ALTER TABLE sales.v3 OWNER TO postgres;

--
-- Name: t02 id; Type: DEFAULT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.t02 ALTER COLUMN id SET DEFAULT nextval('public.t02_id_seq'::regclass);


--
-- Name: t03 id; Type: DEFAULT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.t03 ALTER COLUMN id SET DEFAULT nextval('public.t03_id_seq'::regclass);


--
-- Name: Mixed Case Mixed Case_pkey; Type: CONSTRAINT; Schema: Odd Names; Owner: postgres
--

ALTER TABLE ONLY "Odd Names"."Mixed Case"
    ADD CONSTRAINT "Mixed Case_pkey" PRIMARY KEY ("Id");


--
-- Name: t01 t01_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.t01
    ADD CONSTRAINT t01_pkey PRIMARY KEY (id);


--
-- Name: t02 t02_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.t02
    ADD CONSTRAINT t02_pkey PRIMARY KEY (id);


--
-- Name: t03 t03_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.t03
    ADD CONSTRAINT t03_pkey PRIMARY KEY (id);


--
-- Name: t04 t04_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.t04
    ADD CONSTRAINT t04_pkey PRIMARY KEY (id);


--
-- Name: t05 t05_a_b_key; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.t05
    ADD CONSTRAINT t05_a_b_key UNIQUE (a, b);


--
-- Name: t06 t06_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.t06
    ADD CONSTRAINT t06_pkey PRIMARY KEY (a, b);


--
-- Name: t14 t14_c; Type: CHECK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE public.t14
    ADD CONSTRAINT t14_c CHECK ((length(c) > 2)) NOT VALID;


--
-- Name: t16 t16_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.t16
    ADD CONSTRAINT t16_pkey PRIMARY KEY (id);


--
-- Name: t18 t18_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.t18
    ADD CONSTRAINT t18_pkey PRIMARY KEY (self);


--
-- Name: t21 t21_pk; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.t21
    ADD CONSTRAINT t21_pk PRIMARY KEY (a);


--
-- Name: t21 t21_u; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.t21
    ADD CONSTRAINT t21_u UNIQUE (b);


--
-- Name: t29 t29_a_key; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.t29
    ADD CONSTRAINT t29_a_key UNIQUE NULLS NOT DISTINCT (a);


--
-- Name: t31 t31_during_excl; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.t31
    ADD CONSTRAINT t31_during_excl EXCLUDE USING btree (during WITH =);


--
-- Name: t32 t32_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.t32
    ADD CONSTRAINT t32_pkey PRIMARY KEY (a);


--
-- Name: customer customer_email_key; Type: CONSTRAINT; Schema: sales; Owner: postgres
--

ALTER TABLE ONLY sales.customer
    ADD CONSTRAINT customer_email_key UNIQUE (email);


--
-- Name: customer customer_pkey; Type: CONSTRAINT; Schema: sales; Owner: postgres
--

ALTER TABLE ONLY sales.customer
    ADD CONSTRAINT customer_pkey PRIMARY KEY (id);


--
-- Name: lines lines_pkey; Type: CONSTRAINT; Schema: sales; Owner: postgres
--

ALTER TABLE ONLY sales.lines
    ADD CONSTRAINT lines_pkey PRIMARY KEY (order_id, n);


--
-- Name: orders orders_pkey; Type: CONSTRAINT; Schema: sales; Owner: postgres
--

ALTER TABLE ONLY sales.orders
    ADD CONSTRAINT orders_pkey PRIMARY KEY (id);


--
-- Name: mv1_st; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX mv1_st ON public.mv1 USING btree (st);


--
-- Name: t17_b; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX t17_b ON public.t17 USING btree (b DESC NULLS LAST, a);


--
-- Name: INDEX t17_b; Type: COMMENT; Schema: public; Owner: postgres
--

COMMENT ON INDEX public.t17_b IS 'an index';


--
-- Name: t17_h; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX t17_h ON public.t17 USING hash (c);


--
-- Name: t17_u; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX t17_u ON public.t17 USING btree (a);


--
-- Name: t30_expr; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX t30_expr ON public.t30 USING btree (((a + b)), c text_pattern_ops);


--
-- Name: t30_inc; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX t30_inc ON public.t30 USING btree (a) INCLUDE (b, c);


--
-- Name: t30_lower; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX t30_lower ON public.t30 USING btree (lower(c));


--
-- Name: t30_part; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX t30_part ON public.t30 USING btree (a) WHERE (b > 0);


--
-- Name: t02 t02_t01_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.t02
    ADD CONSTRAINT t02_t01_id_fkey FOREIGN KEY (t01_id) REFERENCES public.t01(id) ON DELETE CASCADE;


--
-- Name: t07 t07_fk; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.t07
    ADD CONSTRAINT t07_fk FOREIGN KEY (x, y) REFERENCES public.t06(a, b) MATCH FULL ON UPDATE CASCADE ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED;


--
-- Name: t18 t18_parent_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.t18
    ADD CONSTRAINT t18_parent_fkey FOREIGN KEY (parent) REFERENCES public.t18(self);


--
-- Name: t22 t22_a_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.t22
    ADD CONSTRAINT t22_a_fkey FOREIGN KEY (a) REFERENCES public.t21(b) ON UPDATE SET DEFAULT ON DELETE RESTRICT;


--
-- Name: lines lines_order_id_fkey; Type: FK CONSTRAINT; Schema: sales; Owner: postgres
--

ALTER TABLE ONLY sales.lines
    ADD CONSTRAINT lines_order_id_fkey FOREIGN KEY (order_id) REFERENCES sales.orders(id) ON DELETE CASCADE;


--
-- Name: orders orders_customer_fkey; Type: FK CONSTRAINT; Schema: sales; Owner: postgres
--

ALTER TABLE ONLY sales.orders
    ADD CONSTRAINT orders_customer_fkey FOREIGN KEY (customer) REFERENCES sales.customer(id);


--
-- PostgreSQL database dump complete
--

\unrestrict key

