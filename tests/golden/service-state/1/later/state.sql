BEGIN TRANSACTION;
CREATE TABLE about (
	name VARCHAR(200) NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "about" VALUES('version','2');
CREATE TABLE audit (
	entry INTEGER NOT NULL, 
	at_s FLOAT NOT NULL, 
	tenant VARCHAR(200) NOT NULL, 
	token VARCHAR(200) NOT NULL, 
	action VARCHAR(200) NOT NULL, 
	subject TEXT NOT NULL, 
	PRIMARY KEY (entry)
);
INSERT INTO "audit" VALUES(1,1000000000.0,'alice','0101010101010101','submit','job-1');
CREATE TABLE blobs (
	tenant VARCHAR(200) NOT NULL, 
	sha256 VARCHAR(200) NOT NULL, 
	kind VARCHAR(200) NOT NULL, 
	bytes BIGINT NOT NULL, 
	expires_s FLOAT, 
	PRIMARY KEY (tenant, sha256)
);
INSERT INTO "blobs" VALUES('alice','abababababababababababababababababababababababababababababababab','package',7,NULL);
CREATE TABLE jobs (
	job VARCHAR(200) NOT NULL, 
	tenant VARCHAR(200) NOT NULL, 
	client_job VARCHAR(200) NOT NULL, 
	digest VARCHAR(200) NOT NULL, 
	request TEXT NOT NULL, 
	program VARCHAR(200) NOT NULL, 
	package VARCHAR(200) NOT NULL, 
	state VARCHAR(200) NOT NULL, 
	attempts INTEGER NOT NULL, 
	submitted_s FLOAT NOT NULL, 
	started_s FLOAT, 
	ended_s FLOAT, 
	figures TEXT, 
	outputs TEXT, 
	output_bytes BIGINT NOT NULL, 
	reason TEXT, 
	expires_s FLOAT, 
	PRIMARY KEY (job)
);
INSERT INTO "jobs" VALUES('job-1','alice','first','00000000000000000000000000000000','{"inputs": {}}','score','abababababababababababababababababababababababababababababababab','queued',1,1000000000.0,NULL,NULL,NULL,NULL,0,NULL,NULL);
CREATE TABLE programs (
	tenant VARCHAR(200) NOT NULL, 
	program VARCHAR(200) NOT NULL, 
	package VARCHAR(200) NOT NULL, 
	description TEXT NOT NULL, 
	created_s FLOAT NOT NULL, 
	PRIMARY KEY (tenant, program)
);
INSERT INTO "programs" VALUES('alice','score','abababababababababababababababababababababababababababababababab','{"inputs": ["x"]}',1000000000.0);
CREATE TABLE tenants (
	tenant VARCHAR(200) NOT NULL, 
	created_s FLOAT NOT NULL, 
	PRIMARY KEY (tenant)
);
INSERT INTO "tenants" VALUES('alice',1000000000.0);
CREATE TABLE tokens (
	token VARCHAR(200) NOT NULL, 
	tenant VARCHAR(200) NOT NULL, 
	digest VARCHAR(200) NOT NULL, 
	scopes VARCHAR(200) NOT NULL, 
	created_s FLOAT NOT NULL, 
	expires_s FLOAT, 
	PRIMARY KEY (token)
);
INSERT INTO "tokens" VALUES('0101010101010101','alice','eba7269617297b3b16de4e7ff66232f8619ee2586ec458aa04abcc4b02dd2f94','read run',1000000000.0,1000000100.0);
CREATE TABLE uploads (
	upload VARCHAR(200) NOT NULL, 
	tenant VARCHAR(200) NOT NULL, 
	kind VARCHAR(200) NOT NULL, 
	bytes BIGINT NOT NULL, 
	sha256 VARCHAR(200) NOT NULL, 
	name VARCHAR(200), 
	params VARCHAR(200), 
	expires_s FLOAT NOT NULL, 
	PRIMARY KEY (upload)
);
INSERT INTO "uploads" VALUES('up-1','alice','key',5,'cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd',NULL,NULL,1000000050.0);
CREATE INDEX ix_tokens_tenant ON tokens (tenant);
CREATE INDEX ix_uploads_tenant ON uploads (tenant);
CREATE UNIQUE INDEX jobs_of_tenant ON jobs (tenant, client_job);
CREATE INDEX jobs_by_state ON jobs (state);
COMMIT;
