/* SPDX-License-Identifier: MIT
 * berth inspect: what a checkpoint holds. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/verbs.h"
#include "common/json_out.h"
#include "common/report.h"
#include "common/sizes.h"
#include "common/table.h"
#include "tool.h"

struct inspect_options {
    const char *path;
    bool tensors, meta, json;
};

#define AT(field) offsetof(struct inspect_options, field)

static const struct arg_option rows[] = {
    {.name = "tensors", .type = ARG_FLAG, .offset = AT(tensors), .help = "list every tensor"},
    {.name = "meta", .type = ARG_FLAG, .offset = AT(meta), .help = "list the metadata (GGUF pairs, or config.json)"},
    {.name = "json", .type = ARG_FLAG, .offset = AT(json), .help = "print JSON"},
};

static const struct arg_group groups[] = {{"Options", rows, sizeof rows / sizeof rows[0], 0}};
static const struct arg_positional positionals[] = {{"MODEL", AT(path), false}};

static const struct arg_spec spec = {
    .verb = "inspect",
    .synopsis = "MODEL [--tensors] [--meta] [--json]",
    .summary = "Show what a checkpoint holds.",
    .details = "Only headers are read; a checkpoint of an unknown family can be inspected too.",
    .positionals = positionals,
    .positionals_count = 1,
    .groups = groups,
    .groups_count = 1,
};

/* ---- text ------------------------------------------------------------------------------------------- */

enum { CELL_MAX = 264, VALUE_SHOWN = 96 };

/* A name or value out of the file as one printable line; long ones end with "...". */
static const char *cell(const char *text, size_t bytes, size_t most, char out[CELL_MAX])
{
    size_t used = 0;
    for (size_t i = 0; i < bytes;) {
        int length = utf8_sequence((const unsigned char *)text + i, bytes - i);
        size_t step = length > 0 ? (size_t)length : 1;
        if (used + step + 4 > CELL_MAX || used + step > most) {
            memcpy(out + used, "...", 3);
            used += 3;
            break;
        }
        unsigned char lead = (unsigned char)text[i];
        if (length <= 0 || lead < 0x20 || lead == 0x7f || (lead == 0xc2 && (unsigned char)text[i + 1] < 0xa0)) {
            out[used++] = lead == '\n' || lead == '\t' ? ' ' : '?';
        } else {
            memcpy(out + used, text + i, step);
            used += step;
        }
        i += step;
    }
    out[used] = '\0';
    return out;
}

static bool tensor_row(void *user, const tool_tensor *tensor)
{
    char name[CELL_MAX];
    char dims[96] = "";
    char bytes[FORMAT_MAX];
    char file[FORMAT_MAX];
    char offset[FORMAT_MAX];
    size_t used = 0;
    for (uint32_t i = 0; i < tensor->dims_count && used < sizeof dims; i++) {
        int written = snprintf(dims + used, sizeof dims - used, "%s%" PRIu64, i > 0 ? " x " : "", tensor->dims[i]);
        used += written > 0 ? (size_t)written : 0;
    }
    snprintf(file, sizeof file, "%" PRIu32, tensor->file);
    snprintf(offset, sizeof offset, "%" PRIu64, tensor->offset);
    const char *cells[] = {cell(tensor->name, tensor->name_bytes, CELL_MAX, name),
                           tensor->dtype,
                           dims,
                           size_format(tensor->bytes, bytes),
                           file,
                           offset};
    table_row(user, cells);
    return true;
}

static bool meta_row(void *user, const tool_meta *meta)
{
    char key[CELL_MAX];
    char type[48];
    char value[CELL_MAX];
    if (meta->count != 1) {
        snprintf(type, sizeof type, "%s[%" PRIu64 "]", meta->type, meta->count);
    } else {
        snprintf(type, sizeof type, "%s", meta->type);
    }
    const char *cells[] = {cell(meta->key, meta->key_bytes, CELL_MAX, key), type,
                           cell(meta->value, meta->value_bytes, VALUE_SHOWN, value)};
    table_row(user, cells);
    return true;
}

static void print_shape(const tool_summary *s)
{
    if (s->family[0] == '\0') {
        char problem[CELL_MAX];
        printf("family      unknown: %s\n", cell(s->family_problem, strlen(s->family_problem), CELL_MAX, problem));
        return;
    }
    printf("family      %s\n", s->family);
    printf("layers      %" PRIu32 " (%" PRIu32 " with experts), hidden %" PRIu32 "\n", s->layers, s->moe_layers,
           s->hidden);
    printf("attention   %" PRIu32 " heads, %" PRIu32 " KV heads of %" PRIu32, s->heads, s->kv_heads, s->head_dim);
    if (s->sliding_window > 0) {
        printf(", window %" PRIu32, s->sliding_window);
    }
    if (s->experts > 0) {
        printf("\nexperts     %" PRIu32 " a layer, top %" PRIu32 ", width %" PRIu32, s->experts, s->top_k,
               s->expert_ffn);
        if (s->shared_ffn > 0) {
            printf(", shared expert %" PRIu32, s->shared_ffn);
        }
    }
    printf("\nvocabulary  %" PRIu32 "\ncontext     %" PRIu32 "\n", s->vocab, s->ctx_max_tokens);
}

static void print_text(const tool_checkpoint *checkpoint, const tool_summary *s, const struct inspect_options *options)
{
    char text[CELL_MAX];
    char size[FORMAT_MAX];
    char count[FORMAT_MAX];
    printf("name        %s\n", cell(s->name, strlen(s->name), CELL_MAX, text));
    printf("format      %s, %" PRIu32 " %s, %" PRIu32 " tensors, %" PRIu32 " metadata pairs\n", s->format, s->files,
           s->files == 1 ? "file" : "files", s->tensors, s->meta_pairs);
    printf("size        %s of tensors, %s parameters, %s of headers\n", size_format(s->tensor_bytes, size),
           count_format(s->parameters, count), size_format(s->header_bytes, text));
    print_shape(s);
    printf("types      ");
    for (uint32_t i = 0; i < s->dtypes_count; i++) {
        printf("%s %s x%" PRIu32 " (%s)", i > 0 ? "," : "", s->dtypes[i].dtype, s->dtypes[i].tensors,
               size_format(s->dtypes[i].bytes, size));
    }
    putchar('\n');
    struct table table;
    if (options->meta) {
        puts("\nmetadata");
        table_begin(&table, stdout, "lll", 2);
        tool_each_meta(checkpoint, meta_row, &table);
        table_print(&table);
        tool_each_meta(checkpoint, meta_row, &table);
    }
    if (options->tensors) {
        puts("\ntensors");
        table_begin(&table, stdout, "lllrrr", 2);
        const char *head[] = {"name", "type", "shape", "bytes", "file", "offset"};
        table_row(&table, head);
        tool_each_tensor(checkpoint, tensor_row, &table);
        table_print(&table);
        table_row(&table, head);
        tool_each_tensor(checkpoint, tensor_row, &table);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------------- */

static bool tensor_json(void *user, const tool_tensor *tensor)
{
    struct json_out *json = user;
    json_out_object(json, NULL);
    json_out_text(json, "name", tensor->name, tensor->name_bytes);
    json_out_string(json, "type", tensor->dtype);
    json_out_array(json, "shape", true);
    for (uint32_t i = 0; i < tensor->dims_count; i++) {
        json_out_u64(json, NULL, tensor->dims[i]);
    }
    json_out_close(json);
    json_out_u64(json, "bytes", tensor->bytes);
    json_out_u64(json, "file", tensor->file);
    json_out_u64(json, "offset", tensor->offset);
    json_out_close(json);
    return true;
}

static bool meta_json(void *user, const tool_meta *meta)
{
    struct json_out *json = user;
    json_out_object(json, NULL);
    json_out_text(json, "key", meta->key, meta->key_bytes);
    json_out_string(json, "type", meta->type);
    json_out_u64(json, "count", meta->count);
    json_out_text(json, "value", meta->value, meta->value_bytes);
    json_out_close(json);
    return true;
}

static void shape_json(struct json_out *json, const tool_summary *s)
{
    const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {
        {"layers", s->layers},
        {"moe_layers", s->moe_layers},
        {"hidden", s->hidden},
        {"heads", s->heads},
        {"kv_heads", s->kv_heads},
        {"head_dim", s->head_dim},
        {"ffn", s->ffn},
        {"experts", s->experts},
        {"top_k", s->top_k},
        {"vocab", s->vocab},
        {"expert_ffn", s->expert_ffn},
        {"shared_ffn", s->shared_ffn},
        {"ctx_max", s->ctx_max_tokens},
        {"sliding_window", s->sliding_window},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        json_out_u64(json, numbers[i].key, numbers[i].value);
    }
}

static void print_json(const tool_checkpoint *checkpoint, const tool_summary *s, const struct inspect_options *options)
{
    struct json_out json;
    json_out_begin(&json, stdout);
    json_out_object(&json, NULL);
    json_out_string(&json, "name", s->name);
    json_out_string(&json, "format", s->format);
    if (s->family[0] != '\0') {
        json_out_string(&json, "family", s->family);
        shape_json(&json, s);
    } else {
        json_out_null(&json, "family");
        json_out_string(&json, "family_problem", s->family_problem);
    }
    json_out_u64(&json, "parameters", s->parameters);
    json_out_u64(&json, "tensor_bytes", s->tensor_bytes);
    json_out_u64(&json, "file_bytes", s->file_bytes);
    json_out_u64(&json, "header_bytes", s->header_bytes);
    json_out_u64(&json, "tensors_count", s->tensors);
    json_out_u64(&json, "meta_count", s->meta_pairs);
    json_out_array(&json, "files", false);
    for (uint32_t i = 0; i < s->files; i++) {
        json_out_string(&json, NULL, tool_file_name(checkpoint, i));
    }
    json_out_close(&json);
    json_out_array(&json, "types", false);
    for (uint32_t i = 0; i < s->dtypes_count; i++) {
        json_out_object(&json, NULL);
        json_out_string(&json, "type", s->dtypes[i].dtype);
        json_out_u64(&json, "tensors", s->dtypes[i].tensors);
        json_out_u64(&json, "bytes", s->dtypes[i].bytes);
        json_out_close(&json);
    }
    json_out_close(&json);
    if (options->meta) {
        json_out_array(&json, "meta", false);
        tool_each_meta(checkpoint, meta_json, &json);
        json_out_close(&json);
    }
    if (options->tensors) {
        json_out_array(&json, "tensors", false);
        tool_each_tensor(checkpoint, tensor_json, &json);
        json_out_close(&json);
    }
    json_out_close(&json);
    json_out_end(&json);
}

static int run(int argc, char **argv)
{
    struct inspect_options options = {0};
    int code;
    if (!report_args(&spec, argc, argv, &options, &code)) {
        return code;
    }
    tool_checkpoint *checkpoint;
    berth_error err;
    if (tool_open(options.path, &checkpoint, &err) != BERTH_OK) {
        return report_error("inspect", &err);
    }
    tool_summary summary;
    tool_summarise(checkpoint, &summary);
    if (options.json) {
        print_json(checkpoint, &summary, &options);
    } else {
        print_text(checkpoint, &summary, &options);
    }
    tool_close(checkpoint);
    return EXIT_OK;
}

const struct verb verb_inspect = {"inspect", &spec, run, false};
