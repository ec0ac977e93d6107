/* SPDX-License-Identifier: MIT */
#include "store/schema.h"

const char *const schema_steps[SCHEMA_VERSION] = {
    /* 1: machines, volumes, models, folders, settings, runs */
    "CREATE TABLE machine (key TEXT PRIMARY KEY, at INTEGER, cpu TEXT, kernel TEXT, ram_bytes INTEGER, cpus INTEGER,"
    " cpus_online INTEGER, packages INTEGER, cores INTEGER, numa_nodes INTEGER, l2_bytes INTEGER, l3_bytes INTEGER,"
    " topology TEXT, memory_one REAL, memory_all REAL, rows TEXT) WITHOUT ROWID;"
    "CREATE TABLE kernel_rate (machine TEXT, dtype TEXT, decode_macs REAL, prefill_macs REAL,"
    " PRIMARY KEY (machine, dtype)) WITHOUT ROWID;"
    "CREATE TABLE volume (machine TEXT, source TEXT, mount TEXT, type TEXT, at INTEGER, read_rate REAL,"
    " request_bytes INTEGER, direct INTEGER, PRIMARY KEY (machine, source, mount)) WITHOUT ROWID;"
    "CREATE TABLE model (path TEXT PRIMARY KEY, bytes INTEGER, mtime_ns INTEGER, seen INTEGER, origin TEXT, name TEXT,"
    " alias TEXT, family TEXT, problem TEXT, format TEXT, quant TEXT, fingerprint TEXT, parameters INTEGER,"
    " tensor_bytes INTEGER, hard_floor INTEGER, floor INTEGER, full INTEGER, trunk_bytes REAL, expert_bytes REAL,"
    " experts_bytes REAL, kv_token_bytes REAL, macs REAL, kv_token_macs REAL, layers INTEGER, moe_layers INTEGER,"
    " experts INTEGER, top_k INTEGER, fixed_bytes INTEGER, ctx_max INTEGER) WITHOUT ROWID;"
    "CREATE TABLE folder (path TEXT PRIMARY KEY) WITHOUT ROWID;"
    "CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;"
    "CREATE TABLE run (id INTEGER PRIMARY KEY, at INTEGER, kind TEXT, machine TEXT, fingerprint TEXT, model TEXT,"
    " path TEXT, engine TEXT, kv TEXT, policy TEXT, isa TEXT, threads INTEGER, io TEXT, budget INTEGER, ctx INTEGER,"
    " chunk INTEGER, slots INTEGER, experts INTEGER, resident INTEGER, predicted_peak INTEGER, peak INTEGER,"
    " predicted_tps REAL, predicted_low REAL, predicted_high REAL, basis TEXT, tps REAL, tokens INTEGER,"
    " predicted_prefill REAL, prefill REAL, prompt INTEGER, predicted_hit REAL, hit REAL, ctx_mean REAL,"
    " memory_rate REAL, read_rate REAL, decode_macs REAL, prefill_macs REAL, work_s REAL, layers INTEGER,"
    " disk_s REAL, stall_s REAL);"
    "CREATE INDEX run_model ON run (machine, fingerprint);",
    /* 2: what a run had to do, so that other rates can be applied to it later */
    "ALTER TABLE run ADD COLUMN work_bytes REAL; ALTER TABLE run ADD COLUMN work_macs REAL;"
    "ALTER TABLE run ADD COLUMN law_prefill REAL;",
    /* 3: memory as each kernel streams it, by how many threads; rates that were measured without go;
     * runs whose cache was filled before */
    "ALTER TABLE kernel_rate ADD COLUMN stream REAL; ALTER TABLE kernel_rate ADD COLUMN threads INTEGER;"
    "DELETE FROM kernel_rate; ALTER TABLE run ADD COLUMN stream REAL; ALTER TABLE run ADD COLUMN steady INTEGER;"
    "DELETE FROM volume; ALTER TABLE volume ADD COLUMN small_rate REAL;",
};
