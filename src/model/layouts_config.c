/* SPDX-License-Identifier: MIT */
#include "model/layouts_config.h"

struct layouts_module {
    struct str name;
    struct str text; /* the object, or what stands in its place */
    bool is_object;
};

static const char *const key_names[LAYOUTS_KEYS] = {"bits", "group_size", "mode"};

/* ---- reading ---------------------------------------------------------------------------------------- */

/* The section's next member that says something (not null, true or false): its key, and the text. False at the end. */
static bool next_module(struct json *walk, struct str config, struct json_token *key, struct layouts_module *module)
{
    while (json_next(walk) == JSON_KEY) {
        *key = walk->token;
        enum json_kind kind = json_next(walk);
        uint64_t from = walk->token.offset;
        if (!json_skip(walk)) {
            return false;
        }
        if (kind != JSON_NULL && kind != JSON_TRUE && kind != JSON_FALSE) {
            module->text = (struct str){config.ptr + from, walk->at - from};
            module->is_object = kind == JSON_OBJECT_BEGIN;
            return true;
        }
    }
    return false;
}

/* The place of the name's cell, or the free one where it belongs. The table is at most half full. */
static uint32_t cell_of(const uint32_t *table, uint32_t mask, const struct layouts_module *modules, struct str name)
{
    for (uint64_t at = hash_name(name);; at++) {
        uint32_t place = (uint32_t)(at & mask);
        if (table[place] == 0 || str_equal(modules[table[place] - 1].name, name)) {
            return place;
        }
    }
}

static berth_status module_name(const struct json_token *key, struct arena *arena, struct str *out, berth_error *err)
{
    *out = key->raw;
    if (key->escaped) {
        char *buffer = arena_take(arena, key->raw.bytes, 1, 1);
        TRY(arena_check(arena, "the settings of config.json", err));
        *out = (struct str){buffer, json_unescape(key, buffer, key->raw.bytes)};
    }
    return BERTH_OK;
}

static berth_status read_modules(struct layouts_section *section, struct str config, struct json object,
                                 struct arena *arena, berth_error *err)
{
    struct json walk = object;
    struct json_token key;
    struct layouts_module module;
    uint32_t count = 0;
    uint32_t cells = 1;
    while (next_module(&walk, config, &key, &module)) {
        count++;
    }
    if (count == 0) {
        return BERTH_OK;
    }
    while (cells / 2 < count) {
        cells *= 2;
    }
    struct layouts_module *modules = ARENA_NEW(arena, struct layouts_module, count);
    uint32_t *table = ARENA_NEW(arena, uint32_t, cells);
    TRY(arena_check(arena, "the settings of config.json", err));
    memset(table, 0, cells * sizeof *table);
    walk = object;
    for (uint32_t i = 0; i < count && next_module(&walk, config, &key, &module); i++) {
        modules[i] = module;
        TRY(module_name(&key, arena, &modules[i].name, err));
        table[cell_of(table, cells - 1, modules, modules[i].name)] =
            i + 1; /* of two with one name the last one counts */
    }
    section->modules = modules;
    section->modules_count = count;
    section->table = table;
    section->table_mask = cells - 1;
    return BERTH_OK;
}

static berth_status read_section(struct layouts_section *section, struct str config, const char *name,
                                 struct arena *arena, berth_error *err)
{
    struct json object;
    *section = (struct layouts_section){.modules = NULL};
    if (!json_find(config, (const char *const[]){name, NULL}, &object) || object.token.kind != JSON_OBJECT_BEGIN) {
        return BERTH_OK;
    }
    for (int key = 0; key < LAYOUTS_KEYS; key++) {
        section->has[key] = json_find(config, (const char *const[]){name, key_names[key], NULL}, &section->value[key]);
    }
    return read_modules(section, config, object, arena, err);
}

static void read_tile(struct layouts_config *out, struct str config)
{
    struct json value;
    static const char *const words[] = {"fmt", "activation_scheme"};
    for (int i = 0; i < 2; i++) {
        if (json_find(config, (const char *const[]){"quantization_config", words[i], NULL}, &value) &&
            value.token.kind != JSON_NULL) {
            bool fine = value.token.kind == JSON_STRING && (i > 0 || json_token_is(&value.token, "e4m3"));
            out->fp8_fault = fine ? out->fp8_fault : words[i];
        }
    }
    out->tile[0] = out->tile[1] = 128;
    out->is_tile_sound = true;
    if (json_find(config, (const char *const[]){"quantization_config", "weight_block_size", NULL}, &value)) {
        bool fine = value.token.kind == JSON_ARRAY_BEGIN;
        for (int i = 0; fine && i < 2; i++) {
            fine = json_next(&value) == JSON_NUMBER && json_token_u64(&value.token, &out->tile[i]);
        }
        out->is_tile_sound = fine && json_next(&value) == JSON_ARRAY_END;
    }
}

berth_status layouts_config_read(struct layouts_config *out, struct str config, struct arena *arena, berth_error *err)
{
    out->fp8_fault = NULL;
    TRY(read_section(&out->sections[0], config, "quantization", arena, err));
    TRY(read_section(&out->sections[1], config, "quantization_config", arena, err));
    read_tile(out, config);
    return BERTH_OK;
}

/* ---- asking ----------------------------------------------------------------------------------------- */

/* NULL: the section has nothing of its own about it. */
static const struct layouts_module *find_module(const struct layouts_section *section, struct str module)
{
    if (section->table == NULL) {
        return NULL;
    }
    uint32_t cell = section->table[cell_of(section->table, section->table_mask, section->modules, module)];
    return cell == 0 ? NULL : &section->modules[cell - 1];
}

static bool of_module(const struct layouts_module *module, enum layouts_key key, struct json *value)
{
    return module != NULL && module->is_object &&
           json_find(module->text, (const char *const[]){key_names[key], NULL}, value) &&
           value->token.kind != JSON_NULL;
}

enum layouts_found layouts_config_number(const struct layouts_config *config, struct str module, enum layouts_key key,
                                         uint64_t *out, struct str *wrong)
{
    for (int i = 0; i < 2; i++) {
        const struct layouts_section *section = &config->sections[i];
        const struct layouts_module *own = find_module(section, module);
        struct json value;
        if (own != NULL && !own->is_object) {
            *wrong = own->text;
            return LAYOUTS_WRONG;
        }
        bool found = of_module(own, key, &value);
        if (!found && section->has[key] && section->value[key].token.kind != JSON_NULL) {
            value = section->value[key];
            found = true;
        }
        if (found) {
            *wrong = value.token.raw.bytes > 0 ? value.token.raw : STR("something else");
            return json_token_u64(&value.token, out) ? LAYOUTS_NUMBER : LAYOUTS_WRONG;
        }
    }
    return LAYOUTS_ABSENT;
}

bool layouts_config_kind(const struct layouts_config *config, struct str module, enum packed_kind *out)
{
    *out = PACKED_AFFINE;
    for (int i = 0; i < 2; i++) {
        const struct layouts_section *section = &config->sections[i];
        struct json value;
        bool found = of_module(find_module(section, module), LAYOUTS_MODE, &value);
        if (!found && section->has[LAYOUTS_MODE]) {
            value = section->value[LAYOUTS_MODE];
            found = true;
        }
        if (found) {
            bool text = value.token.kind == JSON_STRING;
            *out = text && json_token_is(&value.token, "mxfp4") ? PACKED_MXFP4 : PACKED_AFFINE;
            return *out == PACKED_MXFP4 || value.token.kind == JSON_NULL ||
                   (text && json_token_is(&value.token, "affine"));
        }
    }
    return true;
}
