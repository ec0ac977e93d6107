/* SPDX-License-Identifier: MIT
 * checkpoint_open() on handmade files: what a path may be, sets of shards, inconsistent sets, injected read failures,
 * scratch that is too small. After every failure no descriptor may be left open and the scratch is rewound. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/checkpoint.h"
#include "support/build.h"

enum { SCRATCH_BYTES = 32 << 20, WANT_ALL = CHECKPOINT_WANT_TENSORS | CHECKPOINT_WANT_TEXT };

static char folder[64];
static void *scratch_block;
static struct arena scratch;

static const char *at(const char *name)
{
    static char paths[4][700];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "./berth-checkpoint-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : os_reserve(NULL, SCRATCH_BYTES, false, &scratch_block, NULL);
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    os_release(scratch_block, SCRATCH_BYTES);
    return system(command);
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

static void put(const char *name, struct build *image)
{
    assert_int_equal(build_write(image, at(name)), 0);
    build_free(image);
}

static void put_text(const char *name, const char *text)
{
    struct build image = {0};
    build_text(&image, text);
    put(name, &image);
}

static void directory(const char *name)
{
    assert_int_equal(mkdir(at(name), 0700), 0);
}

static berth_status open_at(const char *name, unsigned want, const struct os_hooks *hooks, struct checkpoint *out,
                            berth_error *err)
{
    arena_carve(&scratch, scratch_block, SCRATCH_BYTES);
    return checkpoint_open(out, at(name), want, &scratch, hooks, err);
}

static void opens(const char *name, unsigned want, struct checkpoint *out)
{
    berth_error err = {0};
    if (open_at(name, want, NULL, out, &err) != BERTH_OK) {
        fail_msg("%s: %s (%s %s)", name, err.message, err.path, err.object);
    }
}

/* `path`: end of the path that the error must name. */
static void refuses(const char *name, berth_status wanted, const char *says, const char *path)
{
    struct checkpoint out;
    struct checkpoint untouched;
    berth_error err = {0};
    memset(&out, 0x5a, sizeof out);
    memcpy(&untouched, &out, sizeof out);
    unsigned before = open_descriptors();
    berth_status status = open_at(name, WANT_ALL, NULL, &out, &err);
    if (status != wanted || strstr(err.message, says) == NULL || !str_ends(str_from(err.path), str_from(path))) {
        fail_msg("%s: status %d, \"%s\", path %s; wanted %d, \"%s\", %s", name, status, err.message, err.path, wanted,
                 says, path);
    }
    assert_int_equal(open_descriptors(), before);
    assert_memory_equal(&out, &untouched, sizeof out);
    assert_int_equal(scratch.used_bytes, 0);
}

/* ---- images ----------------------------------------------------------------------------------------- */

/* One F32 tensor of `elems` elements, or none. */
static void put_safetensors(const char *file, const char *tensor, unsigned elems)
{
    struct build image = {0};
    char header[512];
    snprintf(header, sizeof header,
             "{\"__metadata__\":{\"format\":\"pt\"},\"%s\":{\"dtype\":\"F32\",\"shape\":[%u],"
             "\"data_offsets\":[0,%u]}}",
             tensor, elems, 4 * elems);
    build_safetensors(&image, header, 4 * elems);
    put(file, &image);
}

struct split {
    int no, count, tensors; /* -1: without the key */
};

static void put_gguf(const char *file, const char *name, struct split split, const char *tensor)
{
    struct build image = {0};
    unsigned pairs = (name != NULL ? 1u : 0u) + (split.no >= 0 ? 1u : 0u) + (split.count >= 0 ? 1u : 0u) +
                     (split.tensors >= 0 ? 1u : 0u);
    build_head(&image, 3, tensor != NULL ? 1 : 0, pairs);
    if (split.no >= 0) {
        build_key(&image, "split.no", META_U16);
        build_u8(&image, (uint8_t)split.no);
        build_u8(&image, 0);
    }
    if (split.count >= 0) {
        build_key(&image, "split.count", META_U16);
        build_u8(&image, (uint8_t)split.count);
        build_u8(&image, (uint8_t)(split.count >> 8));
    }
    if (split.tensors >= 0) {
        build_key(&image, "split.tensors.count", META_I32);
        build_u32(&image, (uint32_t)split.tensors);
    }
    if (name != NULL) {
        build_key_str(&image, "general.name", name);
    }
    if (tensor != NULL) {
        build_tensor(&image, tensor, 1, (const uint64_t[]){8}, 0, 0);
        build_pad(&image, 32);
        build_zero(&image, 32);
    }
    put(file, &image);
}

static const struct split no_split = {-1, -1, -1};

/* ---- GGUF ------------------------------------------------------------------------------------------- */

static void gguf_single(void **state)
{
    (void)state;
    struct checkpoint c;
    directory("g");
    put_gguf("g/some.gguf", "A \"name\"\n", no_split, "t");
    put_gguf("g/mmproj-some.gguf", NULL, no_split, "vision");
    opens("g/some.gguf", WANT_ALL, &c);
    assert_int_equal(c.format, CHECKPOINT_GGUF);
    assert_int_equal(c.version, 3);
    assert_int_equal(c.files_count, 1);
    assert_int_equal(c.tensors.count, 1);
    assert_non_null(tensor_find(&c.tensors, STR("t")));
    assert_string_equal(c.name, "A \"name\"?");
    assert_string_equal(c.path, at("g/some.gguf"));
    assert_true(c.header_bytes >= 100);
    assert_null(c.config_json.ptr);
    checkpoint_close(&c);
    checkpoint_close(&c);     /* twice is harmless */
    opens("g", WANT_ALL, &c); /* the only model there */
    assert_non_null(tensor_find(&c.tensors, STR("t")));
    checkpoint_close(&c);
    opens("g/some.gguf", CHECKPOINT_WANT_TEXT, &c);
    assert_int_equal(c.tensors.count, 0);
    assert_int_equal(c.meta.count, 1);
    checkpoint_close(&c);
    put_gguf("g/sha256-0123", NULL, no_split, "u"); /* any name */
    opens("g/sha256-0123", WANT_ALL, &c);
    assert_string_equal(c.name, "sha256-0123");
    checkpoint_close(&c);
    put_gguf("g/other.gguf", NULL, no_split, "t");
    refuses("g", BERTH_ERR_ARGUMENT, "2 GGUF models (other.gguf, some.gguf)", "/g");
    put_gguf("g/third.gguf", NULL, no_split, "t");
    refuses("g", BERTH_ERR_ARGUMENT, "3 GGUF models (other.gguf, some.gguf, ...)", "/g");
    put_text("g/text", "hello, this is not a model file");
    refuses("g/text", BERTH_ERR_FORMAT, "not a GGUF file", "/g/text");
    put_text("g/empty", "");
    refuses("g/empty", BERTH_ERR_FORMAT, "cut off", "/g/empty");
    refuses("g/absent.gguf", BERTH_ERR_NOT_FOUND, "No such file", "/g/absent.gguf");
    directory("g/nothing");
    refuses("g/nothing", BERTH_ERR_NOT_FOUND, "no model in the directory", "/g/nothing");
}

static void put_split(const char *prefix, int parts)
{
    for (int i = 0; i < parts; i++) {
        char file[128];
        char tensor[16];
        snprintf(file, sizeof file, "%s-%05d-of-%05d.gguf", prefix, i + 1, parts);
        snprintf(tensor, sizeof tensor, "t%d", i);
        put_gguf(file, i == 0 ? "whole" : NULL, (struct split){i, parts, parts}, tensor);
    }
}

static void gguf_split(void **state)
{
    (void)state;
    static const char *const paths[] = {"s", "s/m-00001-of-00003.gguf", "s/m-00002-of-00003.gguf",
                                        "s/m-00003-of-00003.gguf"};
    directory("s");
    put_split("s/m", 3);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct checkpoint c;
        opens(paths[i], WANT_ALL, &c);
        assert_int_equal(c.files_count, 3);
        assert_int_equal(c.tensors.count, 3);
        for (uint32_t f = 0; f < 3; f++) {
            char name[8];
            snprintf(name, sizeof name, "t%u", f);
            const struct tensor *t = tensor_find(&c.tensors, str_from(name));
            assert_int_equal(t->file, f);
            snprintf(name, sizeof name, "-0000%u", f + 1);
            assert_non_null(strstr(c.files[f].path, name));
        }
        assert_string_equal(c.path, at("s/m-00001-of-00003.gguf"));
        assert_string_equal(c.name, "whole");
        checkpoint_close(&c);
        opens(paths[i], CHECKPOINT_WANT_TEXT, &c); /* the first part has the metadata */
        assert_int_equal(c.files_count, 1);
        assert_string_equal(c.name, "whole");
        checkpoint_close(&c);
    }
    struct checkpoint c;
    put_gguf("s/one.gguf", NULL, (struct split){0, 1, 1}, "t"); /* a split of one needs no pattern */
    opens("s/one.gguf", WANT_ALL, &c);
    checkpoint_close(&c);
    put_gguf("s/zero.gguf", NULL, (struct split){0, 0, 1}, "t");
    opens("s/zero.gguf", WANT_ALL, &c);
    checkpoint_close(&c);
}

static void gguf_split_damaged(void **state)
{
    (void)state;
    static const char second[] = "d/m-00002-of-00003.gguf";
    const berth_status format = BERTH_ERR_FORMAT;
    directory("d");
    put_split("d/m", 3);
    put_gguf("d/m-00004-of-00003.gguf", NULL, (struct split){1, 3, 3}, "x"); /* no part of any set */
    refuses("d/m-00004-of-00003.gguf", format, "must end in -00002-of-00003.gguf", "/m-00004-of-00003.gguf");
    unlink(at("d/m-00004-of-00003.gguf"));
    put_gguf("d/renamed.gguf", NULL, (struct split){1, 3, 3}, "x");
    refuses("d/renamed.gguf", format, "part 2 of 3", "/renamed.gguf");
    unlink(at("d/renamed.gguf"));
    put_gguf(second, NULL, (struct split){0, 3, 3}, "t1"); /* the first part again */
    refuses("d", format, "part 1 of 3, wanted part 2 of 3", second);
    refuses(second, format, "must end in -00001-of-00003.gguf", second);
    put_gguf(second, NULL, (struct split){1, 2, 3}, "t1");
    refuses("d", format, "part 2 of 2, wanted part 2 of 3", second);
    put_gguf(second, NULL, (struct split){5, 3, 3}, "t1");
    refuses("d", format, "part 6", second);
    put_gguf(second, NULL, no_split, "t1");
    refuses("d", format, "part 1 of 1, wanted part 2 of 3", second);
    put_gguf(second, NULL, (struct split){1, 3, 3}, "t0");
    refuses("d", format, "two tensors have this name", ".gguf");
    put_gguf(second, NULL, (struct split){1, 3, 3}, NULL);
    refuses("d", format, "the parts hold 2 tensors, split.tensors.count says 3", "/m-00001-of-00003.gguf");
    put_text(second, "GGUF");
    refuses("d", format, "cut off", second);
    put_text(second, "JUNK and more of it, so that it is longer than the fixed part");
    refuses("d", format, "not a GGUF file", second);
    unlink(at(second));
    refuses("d", BERTH_ERR_NOT_FOUND, "No such file", second);
    unlink(at("d/m-00001-of-00003.gguf"));
    refuses("d", BERTH_ERR_NOT_FOUND, "No such file", "/m-00001-of-00003.gguf"); /* only a later part is left */
    put_gguf("d/m-00001-of-00003.gguf", NULL, no_split, "t0");
    refuses("d/m-00003-of-00003.gguf", format, "part 1 of 1, wanted part 1 of 3", "/m-00001-of-00003.gguf");
    put_gguf("d/many-00001-of-00513.gguf", NULL, (struct split){0, CHECKPOINT_FILES_MAX + 1, 3}, "t0");
    refuses("d/many-00001-of-00513.gguf", format, "of 513; at most 512", "/many-00001-of-00513.gguf");
    put_gguf("d/alone.gguf", NULL, (struct split){3, 1, 1}, "t0");
    refuses("d/alone.gguf", format, "part 4 of 1", "/alone.gguf");
    struct build image = {0};
    build_head(&image, 3, 0, 1);
    build_key_str(&image, "split.count", "3");
    put("d/odd.gguf", &image);
    refuses("d/odd.gguf", format, "split.count is not a whole number", "/odd.gguf");
}

/* ---- safetensors ------------------------------------------------------------------------------------ */

static void hf_single(void **state)
{
    (void)state;
    static const char *const paths[] = {"h", "h/", "h/config.json", "h/model.safetensors"};
    struct checkpoint c;
    directory("h");
    put_text("h/config.json", "{\"a\":1}");
    put_text("h/generation_config.json", "{}");
    put_text("h/tokenizer.json", "{\"t\":2}");
    put_text("h/tokenizer_config.json", "{\"c\":3}");
    put_text("h/chat_template.jinja", "{{ x }}");
    put_safetensors("h/model.safetensors", "w", 5);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        opens(paths[i], WANT_ALL, &c);
        assert_int_equal(c.format, CHECKPOINT_SAFETENSORS);
        assert_int_equal(c.files_count, 1);
        assert_int_equal(c.tensors.count, 1);
        assert_int_equal(c.tensors.items[0].bytes, 20);
        assert_true(str_is(c.config_json, "{\"a\":1}"));
        assert_true(str_is(c.generation_config_json, "{}"));
        assert_true(str_is(c.tokenizer_json, "{\"t\":2}"));
        assert_true(str_is(c.tokenizer_config_json, "{\"c\":3}"));
        assert_true(str_is(c.chat_template, "{{ x }}"));
        assert_string_equal(c.path, i == 3 ? at("h/model.safetensors") : at("h"));
        assert_string_equal(c.name, i == 3 ? "model.safetensors" : "h");
        checkpoint_close(&c);
    }
    opens("h", CHECKPOINT_WANT_TENSORS, &c);
    assert_null(c.tokenizer_json.ptr);
    assert_null(c.chat_template.ptr);
    assert_non_null(c.config_json.ptr);
    checkpoint_close(&c);
    opens("h", CHECKPOINT_WANT_TEXT, &c);
    assert_int_equal(c.files_count, 0);
    assert_int_equal(c.tensors.count, 0);
    assert_true(str_is(c.tokenizer_json, "{\"t\":2}"));
    checkpoint_close(&c);

    put_safetensors("h/adapter.safetensors", "other", 1); /* model.safetensors is the name that counts */
    opens("h", WANT_ALL, &c);
    assert_non_null(tensor_find(&c.tensors, STR("w")));
    checkpoint_close(&c);
    opens("h/adapter.safetensors", WANT_ALL, &c);
    assert_non_null(tensor_find(&c.tensors, STR("other")));
    checkpoint_close(&c);
    assert_int_equal(rename(at("h/model.safetensors"), at("h/renamed.safetensors")), 0);
    refuses("h", BERTH_ERR_FORMAT, "2 .safetensors files and no model.safetensors.index.json", "/h");
    unlink(at("h/adapter.safetensors"));
    opens("h", WANT_ALL, &c); /* the only one, whatever its name */
    checkpoint_close(&c);
    unlink(at("h/renamed.safetensors"));
    refuses("h", BERTH_ERR_NOT_FOUND, "no .safetensors file", "/h");
    opens("h", 0, &c); /* a bare config is enough when no tensors are wanted */
    assert_true(str_is(c.config_json, "{\"a\":1}"));
    checkpoint_close(&c);
    opens("h/config.json", 0, &c);
    checkpoint_close(&c);
    put_text("h/config.json", "{\"a\":1,}");
    refuses("h", BERTH_ERR_FORMAT, "expected a member name in quotes at byte 7", "/h/config.json");
    put_text("h/config.json", "");
    refuses("h", BERTH_ERR_FORMAT, "ends too early", "/h/config.json");
    unlink(at("h/config.json"));
    directory("h/config.json");
    refuses("h", BERTH_ERR_UNSUPPORTED, "this is a directory", "/h/config.json");
}

static void put_index(const char *members)
{
    char text[1024];
    snprintf(text, sizeof text, "{\"metadata\":{},\"weight_map\":{%s}}", members);
    put_text("i/model.safetensors.index.json", text);
}

static void hf_indexed(void **state)
{
    (void)state;
    static const char *const paths[] = {"i", "i/x-2.safetensors", "i/model.safetensors.index.json", "i/config.json"};
    static const char index_file[] = "/i/model.safetensors.index.json";
    const berth_status format = BERTH_ERR_FORMAT;
    struct checkpoint c;
    directory("i");
    put_text("i/config.json", "{}");
    put_safetensors("i/x-1.safetensors", "b", 1);
    put_safetensors("i/x-2.safetensors", "a", 2);
    put_safetensors("i/unrelated.safetensors", "a", 2);
    put_index("\"a\":\"x-2.safetensors\",\"\\u0062\":\"x\\u002d1.safetensors\"");
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        opens(paths[i], WANT_ALL, &c);
        assert_int_equal(c.files_count, 2);
        assert_non_null(strstr(c.files[0].path, "x-1")); /* in order of name, not of the index */
        assert_int_equal(tensor_find(&c.tensors, STR("a"))->file, 1);
        assert_int_equal(tensor_find(&c.tensors, STR("b"))->file, 0);
        assert_string_equal(c.path, at("i"));
        checkpoint_close(&c);
    }
    opens("i/unrelated.safetensors", WANT_ALL, &c);
    assert_int_equal(c.files_count, 1);
    checkpoint_close(&c);
    put_index("\"a\":\"x-2.safetensors\""); /* an unlisted file is not read */
    opens("i", WANT_ALL, &c);
    assert_int_equal(c.tensors.count, 1);
    checkpoint_close(&c);

    put_index("\"a\":\"x-1.safetensors\",\"b\":\"x-2.safetensors\"");
    refuses("i", format, "promises this tensor in x-1.safetensors, it is in x-2.safetensors", index_file);
    put_index("\"a\":\"x-2.safetensors\",\"b\":\"x-1.safetensors\",\"c\":\"x-1.safetensors\"");
    refuses("i", format, "promises this tensor in x-1.safetensors, which lacks it", index_file);
    put_index("\"a\":\"x-2.safetensors\",\"b\":\"x-3.safetensors\"");
    refuses("i", BERTH_ERR_NOT_FOUND, "No such file", "/i/x-3.safetensors");
    put_index("\"a\":\"x-2.safetensors\",\"b\":\"unrelated.safetensors\"");
    refuses("i", format, "two tensors have this name", ".safetensors");
    put_index("\"a\":\"../i/x-2.safetensors\"");
    refuses("i", format, "wanted the plain name of a file", index_file);
    refuses("i/x-2.safetensors", format, "wanted the plain name of a file", index_file);
    put_index("\"a\":\"..\"");
    refuses("i", format, "wanted the plain name", index_file);
    put_index("\"a\":\"\"");
    refuses("i", format, "wanted the plain name", index_file);
    put_index("\"a\":\"x\\u0000.safetensors\"");
    refuses("i", format, "wanted the plain name", index_file);
    put_index("\"a\":\"model.safetensors.index.json\""); /* itself */
    refuses("i", format, "not a safetensors file", index_file);
    put_index("\"a\":7");
    refuses("i", format, "not a file name", index_file);
    put_index("");
    refuses("i", format, "is empty", index_file);
    put_text("i/model.safetensors.index.json", "{\"weight_map\":{\"a\":\"x-2.safetensors\"}");
    refuses("i", format, "ends too early", index_file);
    put_text("i/model.safetensors.index.json", "{}");
    refuses("i", format, "no weight_map", index_file);
}

static void hf_too_many_files(void **state)
{
    (void)state;
    struct build image = {0};
    directory("n");
    put_text("n/config.json", "{}");
    build_text(&image, "{\"weight_map\":{");
    for (int i = 0; i <= CHECKPOINT_FILES_MAX; i++) {
        char member[64];
        snprintf(member, sizeof member, "%s\"t%d\":\"f%d.safetensors\"", i == 0 ? "" : ",", i, i);
        build_text(&image, member);
    }
    build_text(&image, "}}");
    put("n/model.safetensors.index.json", &image);
    refuses("n", BERTH_ERR_LIMIT, "more than 512 files", "/n/model.safetensors.index.json");
}

static void long_paths_are_refused(void **state)
{
    (void)state;
    char name[600];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    struct checkpoint c;
    berth_error err;
    assert_int_not_equal(open_at(name, WANT_ALL, NULL, &c, &err), BERTH_OK);
    /* A directory whose own path fits and whose files' do not. */
    char path[700];
    snprintf(path, sizeof path, "%s", at("long"));
    assert_int_equal(mkdir(path, 0700), 0);
    while (strlen(path) < 490) {
        strcat(path, "/dddddddddddddddddd");
        assert_int_equal(mkdir(path, 0700), 0);
    }
    char file[800];
    snprintf(file, sizeof file, "%s/config.json", path);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fputs("{}", f);
    fclose(f);
    arena_carve(&scratch, scratch_block, SCRATCH_BYTES);
    assert_int_equal(checkpoint_open(&c, path, WANT_ALL, &scratch, NULL, &err), BERTH_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "more than 511 bytes"));
}

/* ---- big headers ------------------------------------------------------------------------------------ */

static void headers_longer_than_one_read(void **state)
{
    (void)state;
    struct build image = {0};
    struct checkpoint c;
    enum { COUNT = 100000 };
    build_head(&image, 3, 1, 2);
    build_array(&image, "tokens", META_STRING, COUNT);
    for (int i = 0; i < COUNT; i++) {
        char text[32];
        snprintf(text, sizeof text, "token number %d", i);
        build_str(&image, text);
    }
    build_key_str(&image, "general.name", "after the tokens");
    build_tensor(&image, "t", 1, (const uint64_t[]){8}, 0, 0);
    build_pad(&image, 32);
    size_t data = image.bytes;
    build_zero(&image, 32);
    put("big.gguf", &image);
    opens("big.gguf", WANT_ALL, &c);
    assert_string_equal(c.name, "after the tokens");
    assert_int_equal(c.tensors.items[0].offset, data);
    assert_true(c.header_bytes >= data);
    struct meta_strings walk;
    struct str text;
    assert_true(meta_strings_begin(meta_find(&c.meta, STR("tokens")), &walk));
    for (int i = 0; i < COUNT; i++) {
        char wanted[32];
        snprintf(wanted, sizeof wanted, "token number %d", i);
        assert_true(meta_strings_next(&walk, &text) && str_is(text, wanted));
    }
    checkpoint_close(&c);

    directory("b");
    put_text("b/config.json", "{}");
    struct build header = {0};
    for (int i = 0; i < 5000; i++) {
        char member[128];
        /* against the order of names */
        snprintf(member, sizeof member, "%c\"tensor.%05d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                 i == 0 ? '{' : ',', 4999 - i, i, i + 1);
        build_text(&header, member);
    }
    build_put(&header, "}", 2);
    build_safetensors(&image, (const char *)header.ptr, 5000);
    build_free(&header);
    size_t header_bytes = image.bytes - 5000;
    put("b/model.safetensors", &image);
    opens("b", WANT_ALL, &c);
    assert_int_equal(c.tensors.count, 5000);
    for (uint32_t i = 0; i < 5000; i++) {
        const struct tensor *t = &c.tensors.items[i];
        char wanted[32];
        snprintf(wanted, sizeof wanted, "tensor.%05u", i);
        assert_true(str_is(t->name, wanted));
        assert_int_equal(t->offset, header_bytes + 4999 - i);
        assert_ptr_equal(tensor_find(&c.tensors, str_from(wanted)), t);
    }
    checkpoint_close(&c);
}

/* ---- faults ----------------------------------------------------------------------------------------- */

struct fault {
    unsigned calls, nth;
    int64_t result;
    size_t most_bytes;
};

static int64_t faulty_read(void *user, int fd, void *buffer, size_t bytes, uint64_t offset)
{
    struct fault *fault = user;
    bool strikes = ++fault->calls == fault->nth;
    if (strikes && fault->result <= 0) {
        return fault->result;
    }
    if (fault->most_bytes != 0 && bytes > fault->most_bytes) {
        bytes = fault->most_bytes;
    }
    ssize_t got = pread(fd, buffer, bytes, (off_t)offset);
    return got < 0 ? -errno : strikes && got > fault->result ? fault->result : got;
}

static void each_read_may_fail(void **state)
{
    (void)state;
    static const char *const paths[] = {"f/gguf", "f/hf", "big.gguf"};
    static const int64_t results[] = {-EIO, 0, -EINTR, 100};
    directory("f");
    directory("f/gguf");
    directory("f/hf");
    put_split("f/gguf/m", 3);
    put_text("f/hf/config.json", "{}");
    put_text("f/hf/tokenizer.json", "{}");
    put_safetensors("f/hf/x-1.safetensors", "b", 1);
    put_safetensors("f/hf/x-2.safetensors", "a", 2);
    put_text("f/hf/model.safetensors.index.json",
             "{\"weight_map\":{\"a\":\"x-2.safetensors\",\"b\":\"x-1.safetensors\"}}");
    for (size_t p = 0; p < sizeof paths / sizeof paths[0]; p++) {
        for (size_t r = 0; r < sizeof results / sizeof results[0]; r++) {
            bool recovers = r >= 2; /* interrupted, or short once */
            for (unsigned nth = 1;; nth++) {
                struct fault fault = {.nth = nth, .result = results[r], .most_bytes = nth % 2 == 0 ? 4096 : 0};
                struct os_hooks hooks = {.user = &fault, .read_at = faulty_read};
                struct checkpoint c;
                berth_error err = {0};
                unsigned before = open_descriptors();
                berth_status status = open_at(paths[p], WANT_ALL, &hooks, &c, &err);
                bool struck = fault.calls >= nth;
                if (status == BERTH_OK) {
                    assert_true(recovers || !struck);
                    assert_true(c.tensors.count >= 1);
                    checkpoint_close(&c);
                } else {
                    assert_true(struck && !recovers);
                    assert_int_equal(status, BERTH_ERR_IO);
                    assert_true(err.path[0] != '\0' && err.offset != UINT64_MAX);
                    assert_int_equal(scratch.used_bytes, 0);
                }
                assert_int_equal(open_descriptors(), before);
                if (!struck) {
                    assert_true(nth > 3);
                    break;
                }
            }
        }
    }
}

static void any_scratch_size_is_safe(void **state)
{
    (void)state;
    static const char *const paths[] = {"f/gguf", "f/hf", "b"};
    for (size_t p = 0; p < sizeof paths / sizeof paths[0]; p++) {
        bool opened = false;
        for (uint64_t cap = 0; cap <= 2u << 20; cap += cap < 65536 ? 1021 : 33013) {
            struct checkpoint c;
            berth_error err = {0};
            unsigned before = open_descriptors();
            arena_carve(&scratch, scratch_block, cap);
            berth_status status = checkpoint_open(&c, at(paths[p]), WANT_ALL, &scratch, NULL, &err);
            if (status == BERTH_OK) {
                assert_true(scratch.peak_bytes <= cap);
                checkpoint_close(&c);
                opened = true;
            } else {
                assert_int_equal(status, BERTH_ERR_LIMIT);
                assert_non_null(strstr(err.message, "set aside"));
                assert_false(opened); /* more room never hurts */
            }
            assert_int_equal(open_descriptors(), before);
        }
        assert_true(opened);
    }
    struct checkpoint c;
    struct arena measuring;
    arena_measure(&measuring);
    assert_int_equal(checkpoint_open(&c, at("b"), WANT_ALL, &measuring, NULL, NULL), BERTH_ERR_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gguf_single),
        cmocka_unit_test(gguf_split),
        cmocka_unit_test(gguf_split_damaged),
        cmocka_unit_test(hf_single),
        cmocka_unit_test(hf_indexed),
        cmocka_unit_test(hf_too_many_files),
        cmocka_unit_test(long_paths_are_refused),
        cmocka_unit_test(headers_longer_than_one_read),
        cmocka_unit_test(each_read_may_fail),
        cmocka_unit_test(any_scratch_size_is_safe),
    };
    return cmocka_run_group_tests_name("checkpoint", tests, make_folder, remove_folder);
}
