/* SPDX-License-Identifier: MIT
 * Shapes and names: the published configurations of Qwen3 MoE and DeepSeek-V3; the GGUF names of the files of their
 * time. A release's shards are cut in the order of the model, and within a shard tensors lie by the size of their type,
 * then by name, as the reference writer of safetensors puts them. */
#define _POSIX_C_SOURCE 200809L
#include "support/headers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- shapes ----------------------------------------------------------------------------------------- */

enum type { BF16, F8, F32, Q8_0, TYPES };

static const struct {
    const char *name;
    uint32_t gguf, elems, bytes; /* of a block */
} types[TYPES] = {{"BF16", 30, 1, 2}, {"F8_E4M3", 0, 1, 1}, {"F32", 0, 1, 4}, {"Q8_0", 8, 32, 34}};

enum where { FIRST, EVERY, DENSE, MIXED, EXPERT, PREDICT, LAST };

enum { EXPERTS = UINT32_MAX }; /* a dim: as many as there are */

struct row {
    enum where where;
    const char *name, *gguf; /* gguf NULL: not in such a file */
    uint32_t dims[2];        /* 0: a vector */
    bool scaled;             /* 8-bit floats with a scale for every 128 x 128 */
};

struct shape {
    const char *name, *config, *arch, *meta; /* config: layers, experts follow as two members */
    uint32_t files, layers, dense_layers, experts, top_k, predict_layers, ctx;
    enum type gguf_type;
    const struct row *rows;
    uint32_t rows_count;
};

#define HF "model.layers.%u."

static const struct row qwen3_rows[] = {
    {FIRST, "model.embed_tokens.weight", "token_embd.weight", {151936, 4096}, false},
    {EVERY, HF "self_attn.q_proj.weight", "blk.%u.attn_q.weight", {8192, 4096}, false},
    {EVERY, HF "self_attn.k_proj.weight", "blk.%u.attn_k.weight", {512, 4096}, false},
    {EVERY, HF "self_attn.v_proj.weight", "blk.%u.attn_v.weight", {512, 4096}, false},
    {EVERY, HF "self_attn.o_proj.weight", "blk.%u.attn_output.weight", {4096, 8192}, false},
    {EVERY, HF "self_attn.q_norm.weight", "blk.%u.attn_q_norm.weight", {128, 0}, false},
    {EVERY, HF "self_attn.k_norm.weight", "blk.%u.attn_k_norm.weight", {128, 0}, false},
    {EVERY, HF "mlp.gate.weight", "blk.%u.ffn_gate_inp.weight", {EXPERTS, 4096}, false},
    {EXPERT, HF "mlp.experts.%u.gate_proj.weight", "blk.%u.ffn_gate.%u.weight", {1536, 4096}, false},
    {EXPERT, HF "mlp.experts.%u.up_proj.weight", "blk.%u.ffn_up.%u.weight", {1536, 4096}, false},
    {EXPERT, HF "mlp.experts.%u.down_proj.weight", "blk.%u.ffn_down.%u.weight", {4096, 1536}, false},
    {EVERY, HF "input_layernorm.weight", "blk.%u.attn_norm.weight", {4096, 0}, false},
    {EVERY, HF "post_attention_layernorm.weight", "blk.%u.ffn_norm.weight", {4096, 0}, false},
    {LAST, "model.norm.weight", "output_norm.weight", {4096, 0}, false},
    {LAST, "lm_head.weight", "output.weight", {151936, 4096}, false},
};

static const struct row deepseek_rows[] = {
    {FIRST, "model.embed_tokens.weight", "token_embd.weight", {129280, 7168}, false},
    {EVERY, HF "self_attn.q_a_proj.weight", "blk.%u.attn_q_a.weight", {1536, 7168}, true},
    {EVERY, HF "self_attn.q_a_layernorm.weight", "blk.%u.attn_q_a_norm.weight", {1536, 0}, false},
    {EVERY, HF "self_attn.q_b_proj.weight", "blk.%u.attn_q_b.weight", {24576, 1536}, true},
    {EVERY, HF "self_attn.kv_a_proj_with_mqa.weight", "blk.%u.attn_kv_a_mqa.weight", {576, 7168}, true},
    {EVERY, HF "self_attn.kv_a_layernorm.weight", "blk.%u.attn_kv_a_norm.weight", {512, 0}, false},
    {EVERY, HF "self_attn.kv_b_proj.weight", "blk.%u.attn_kv_b.weight", {32768, 512}, true},
    {EVERY, HF "self_attn.o_proj.weight", "blk.%u.attn_output.weight", {7168, 16384}, true},
    {DENSE, HF "mlp.gate_proj.weight", "blk.%u.ffn_gate.weight", {18432, 7168}, true},
    {DENSE, HF "mlp.up_proj.weight", "blk.%u.ffn_up.weight", {18432, 7168}, true},
    {DENSE, HF "mlp.down_proj.weight", "blk.%u.ffn_down.weight", {7168, 18432}, true},
    {MIXED, HF "mlp.gate.weight", "blk.%u.ffn_gate_inp.weight", {EXPERTS, 7168}, false},
    {MIXED, HF "mlp.gate.e_score_correction_bias", "blk.%u.exp_probs_b.bias", {EXPERTS, 0}, false},
    {EXPERT, HF "mlp.experts.%u.gate_proj.weight", "blk.%u.ffn_gate.%u.weight", {2048, 7168}, true},
    {EXPERT, HF "mlp.experts.%u.up_proj.weight", "blk.%u.ffn_up.%u.weight", {2048, 7168}, true},
    {EXPERT, HF "mlp.experts.%u.down_proj.weight", "blk.%u.ffn_down.%u.weight", {7168, 2048}, true},
    {MIXED, HF "mlp.shared_experts.gate_proj.weight", "blk.%u.ffn_gate_shexp.weight", {2048, 7168}, true},
    {MIXED, HF "mlp.shared_experts.up_proj.weight", "blk.%u.ffn_up_shexp.weight", {2048, 7168}, true},
    {MIXED, HF "mlp.shared_experts.down_proj.weight", "blk.%u.ffn_down_shexp.weight", {7168, 2048}, true},
    {EVERY, HF "input_layernorm.weight", "blk.%u.attn_norm.weight", {7168, 0}, false},
    {EVERY, HF "post_attention_layernorm.weight", "blk.%u.ffn_norm.weight", {7168, 0}, false},
    {PREDICT, HF "embed_tokens.weight", NULL, {129280, 7168}, false},
    {PREDICT, HF "enorm.weight", NULL, {7168, 0}, false},
    {PREDICT, HF "hnorm.weight", NULL, {7168, 0}, false},
    {PREDICT, HF "eh_proj.weight", NULL, {7168, 14336}, false},
    {PREDICT, HF "shared_head.norm.weight", NULL, {7168, 0}, false},
    {PREDICT, HF "shared_head.head.weight", NULL, {129280, 7168}, false},
    {LAST, "model.norm.weight", "output_norm.weight", {7168, 0}, false},
    {LAST, "lm_head.weight", "output.weight", {129280, 7168}, false},
};

#define ROWS(table) table, sizeof(table) / sizeof(table)[0]

static const struct shape shapes[] = {
    {"qwen3-moe",
     "\"architectures\":[\"Qwen3MoeForCausalLM\"],\"model_type\":\"qwen3_moe\",\"hidden_size\":4096,"
     "\"num_attention_heads\":64,\"num_key_value_heads\":4,\"head_dim\":128,\"intermediate_size\":12288,"
     "\"moe_intermediate_size\":1536,\"num_experts_per_tok\":8,\"norm_topk_prob\":true,\"decoder_sparse_step\":1,"
     "\"mlp_only_layers\":[],\"hidden_act\":\"silu\",\"rms_norm_eps\":1e-06,\"rope_theta\":1000000.0,"
     "\"max_position_embeddings\":40960,\"tie_word_embeddings\":false,\"torch_dtype\":\"bfloat16\","
     "\"vocab_size\":151936,\"num_hidden_layers\":%u,\"num_experts\":%u",
     "qwen3moe",
     "embedding_length=4096 attention.head_count=64 attention.head_count_kv=4 attention.key_length=128 "
     "attention.value_length=128 feed_forward_length=12288 expert_feed_forward_length=1536 ",
     60, 77, 0, 256, 8, 0, 40960, BF16, ROWS(qwen3_rows)},
    {"deepseek-v3",
     "\"architectures\":[\"DeepseekV3ForCausalLM\"],\"model_type\":\"deepseek_v3\",\"hidden_size\":7168,"
     "\"num_attention_heads\":128,\"num_key_value_heads\":128,\"intermediate_size\":18432,\"first_k_dense_replace\":3,"
     "\"moe_intermediate_size\":2048,\"moe_layer_freq\":1,\"n_shared_experts\":1,\"num_experts_per_tok\":8,"
     "\"n_group\":8,\"topk_group\":4,\"norm_topk_prob\":true,\"routed_scaling_factor\":2.5,\"scoring_func\":"
     "\"sigmoid\","
     "\"topk_method\":\"noaux_tc\",\"q_lora_rank\":1536,\"kv_lora_rank\":512,\"qk_nope_head_dim\":128,"
     "\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"hidden_act\":\"silu\",\"rms_norm_eps\":1e-06,\"rope_theta\":10000,"
     "\"max_position_embeddings\":163840,\"tie_word_embeddings\":false,\"torch_dtype\":\"bfloat16\","
     "\"num_nextn_predict_layers\":1,\"quantization_config\":{\"quant_method\":\"fp8\",\"fmt\":\"e4m3\","
     "\"weight_block_size\":[128,128]},\"vocab_size\":129280,\"num_hidden_layers\":%u,\"n_routed_experts\":%u",
     "deepseek2",
     "embedding_length=7168 attention.head_count=128 attention.head_count_kv=128 attention.key_length=192 "
     "attention.value_length=128 attention.q_lora_rank=1536 attention.kv_lora_rank=512 rope.dimension_count=64 "
     "feed_forward_length=18432 expert_feed_forward_length=2048 leading_dense_block_count=3 expert_shared_count=1 ",
     163, 61, 3, 256, 8, 1, 163840, Q8_0, ROWS(deepseek_rows)},
};

const char *headers_shape(uint32_t i)
{
    return i < sizeof shapes / sizeof shapes[0] ? shapes[i].name : NULL;
}

/* ---- tensors ---------------------------------------------------------------------------------------- */

struct tensor {
    char name[80];
    enum type type;
    uint64_t dims[2], bytes; /* dims[1] 0: a vector */
    uint32_t file;
};

struct making {
    const struct headers_request *request;
    struct headers_made *made;
    const struct shape *shape;
    uint32_t layers, experts;
    struct tensor *tensors;
    uint32_t count, cap;
};

static bool append(struct making *m, const char *name, enum type type, uint64_t rows, uint64_t columns, bool expert)
{
    if (m->count == m->cap) {
        uint32_t cap = m->cap == 0 ? 4096 : 2 * m->cap;
        struct tensor *more = realloc(m->tensors, cap * sizeof *more);
        if (more == NULL) {
            return false;
        }
        m->tensors = more;
        m->cap = cap;
    }
    struct tensor *tensor = &m->tensors[m->count++];
    uint64_t elems = rows * (columns > 0 ? columns : 1);
    *tensor = (struct tensor){.type = type, .dims = {rows, columns}};
    tensor->bytes = elems / types[type].elems * types[type].bytes;
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    m->made->tensor_bytes += tensor->bytes;
    m->made->expert_bytes += expert ? tensor->bytes : 0;
    m->made->parameters += elems;
    return true;
}

static bool add_row(struct making *m, const struct row *row, uint32_t layer, uint32_t expert)
{
    char name[80];
    bool gguf = m->request->gguf;
    const char *pattern = gguf ? row->gguf : row->name;
    uint64_t rows = row->dims[0] == EXPERTS ? m->experts : row->dims[0];
    if (pattern == NULL) {
        return true;
    }
    /* Written by hand, as formats that are no literals are refused. */
    const uint32_t numbers[2] = {layer, expert};
    uint32_t used = 0;
    size_t at = 0;
    for (const char *p = pattern; *p != '\0' && at + 12 < sizeof name; p++) {
        if (p[0] == '%') {
            at += (size_t)snprintf(name + at, sizeof name - at, "%" PRIu32, numbers[used++ % 2]);
            p++;
        } else {
            name[at++] = *p;
        }
    }
    name[at] = '\0';
    bool is_expert = row->where == EXPERT;
    if (gguf) {
        return append(m, name, row->dims[1] == 0 ? F32 : m->shape->gguf_type, rows, row->dims[1], is_expert);
    }
    if (!append(m, name, row->scaled ? F8 : BF16, rows, row->dims[1], is_expert) || !row->scaled) {
        return row->scaled ? false : true;
    }
    snprintf(name + at, sizeof name - at, "_scale_inv");
    return append(m, name, F32, (rows + 127) / 128, (row->dims[1] + 127) / 128, is_expert);
}

/* Rows of one place, experts one after the other. */
static bool add_rows(struct making *m, unsigned wanted, uint32_t layer)
{
    for (uint32_t i = 0; i < m->shape->rows_count; i++) {
        const struct row *row = &m->shape->rows[i];
        if ((wanted >> row->where & 1) == 0) {
            continue;
        }
        if (row->where != EXPERT) {
            if (!add_row(m, row, layer, 0)) {
                return false;
            }
            continue;
        }
        for (uint32_t expert = 0; expert < m->experts; expert++) {
            for (uint32_t part = 0; part < 3; part++) {
                if (!add_row(m, row + part, layer, expert)) {
                    return false;
                }
            }
        }
        i += 2;
    }
    return true;
}

static bool add_all(struct making *m)
{
    uint32_t more = m->request->gguf ? 0 : m->shape->predict_layers;
    if (!add_rows(m, 1u << FIRST, 0)) {
        return false;
    }
    for (uint32_t layer = 0; layer < m->layers + more; layer++) {
        unsigned kind = layer < m->shape->dense_layers ? 1u << DENSE : 1u << MIXED | 1u << EXPERT;
        if (!add_rows(m, 1u << EVERY | kind | (layer >= m->layers ? 1u << PREDICT : 0), layer)) {
            return false;
        }
    }
    return add_rows(m, 1u << LAST, 0);
}

/* ---- files ------------------------------------------------------------------------------------------ */

/* Closes; `bytes` is the size that the file gets, mostly a hole. */
static bool finish(FILE *file, uint64_t bytes)
{
    bool fine = fflush(file) == 0 && (bytes == 0 || ftruncate(fileno(file), (off_t)bytes) == 0);
    int code = errno;
    fine = fclose(file) == 0 && fine;
    errno = fine ? errno : code;
    return fine;
}

static FILE *create(const struct making *m, const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", m->request->folder, name);
    return fopen(path, "wb");
}

static int by_type_and_name(const void *a, const void *b)
{
    const struct tensor *one = a;
    const struct tensor *two = b;
    int order = (int)types[two->type].bytes - (int)types[one->type].bytes;
    return order != 0 ? order : strcmp(one->name, two->name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

static void shard_name(const struct making *m, uint32_t file, char *name, size_t cap)
{
    snprintf(name, cap, "model-%05" PRIu32 "-of-%05" PRIu32 ".safetensors", file + 1, m->made->files);
}

/* tensors[0..count) are those of one file. */
static bool write_shard(const struct making *m, uint32_t index, struct tensor *tensors, uint32_t count)
{
    char name[64];
    uint64_t at = 0;
    shard_name(m, index, name, sizeof name);
    FILE *file = create(m, name);
    if (file == NULL) {
        return false;
    }
    qsort(tensors, count, sizeof *tensors, by_type_and_name);
    fprintf(file, "%8s{\"__metadata__\":{\"format\":\"pt\"}", "");
    for (uint32_t i = 0; i < count; i++) {
        const struct tensor *tensor = &tensors[i];
        fprintf(file, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%" PRIu64, tensor->name, types[tensor->type].name,
                tensor->dims[0]);
        if (tensor->dims[1] > 0) {
            fprintf(file, ",%" PRIu64, tensor->dims[1]);
        }
        fprintf(file, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + tensor->bytes);
        at += tensor->bytes;
    }
    fputc('}', file);
    long length = ftell(file);
    for (; length % 8 != 0; length++) {
        fputc(' ', file);
    }
    unsigned char prefix[8];
    for (int i = 0; i < 8; i++) {
        prefix[i] = (unsigned char)((uint64_t)(length - 8) >> 8 * i);
    }
    bool fine = fseek(file, 0, SEEK_SET) == 0 && fwrite(prefix, 1, 8, file) == 8;
    return finish(file, (uint64_t)length + at) && fine;
}

static bool write_documents(const struct making *m)
{
    FILE *config = create(m, "config.json");
    if (config == NULL) {
        return false;
    }
    /* The two numbers are the only conversions of the text. */
    const uint32_t numbers[2] = {m->layers, m->experts};
    uint32_t used = 0;
    fputc('{', config);
    for (const char *p = m->shape->config; *p != '\0'; p++) {
        if (p[0] == '%') {
            fprintf(config, "%" PRIu32, numbers[used++ % 2]);
            p++;
        } else {
            fputc(*p, config);
        }
    }
    fputs("}\n", config);
    FILE *index = create(m, "model.safetensors.index.json");
    if (!finish(config, 0) || index == NULL) {
        return false;
    }
    qsort(m->tensors, m->count, sizeof *m->tensors, by_name);
    fprintf(index, "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n  \"weight_map\": {",
            m->made->tensor_bytes);
    for (uint32_t i = 0; i < m->count; i++) {
        char name[64];
        shard_name(m, m->tensors[i].file, name, sizeof name);
        fprintf(index, "%s\n    \"%s\": \"%s\"", i > 0 ? "," : "", m->tensors[i].name, name);
    }
    fputs("\n  }\n}\n", index);
    return finish(index, 0);
}

static bool write_safetensors(struct making *m)
{
    uint64_t share = m->made->tensor_bytes / m->made->files + 1;
    uint64_t before = 0;
    uint64_t cut = share;
    uint32_t files = 1;
    uint32_t first = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        for (bool next = before >= cut; before >= cut; cut += share) { /* a tensor of several shares leaves no gap */
            files += next ? 1u : 0u;
            next = false;
        }
        m->tensors[i].file = files - 1;
        before += m->tensors[i].bytes;
    }
    m->made->files = files;
    for (uint32_t file = 0; file < m->made->files; file++) {
        uint32_t end = first;
        while (end < m->count && m->tensors[end].file == file) {
            end++;
        }
        if (!write_shard(m, file, m->tensors + first, end - first)) {
            return false;
        }
        first = end;
    }
    snprintf(m->made->path, sizeof m->made->path, "%s", m->request->folder);
    return write_documents(m);
}

/* ---- GGUF ------------------------------------------------------------------------------------------- */

static void put_number(FILE *file, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        fputc((int)(value >> 8 * i & 0xff), file);
    }
}

static void put_text(FILE *file, const char *text, size_t bytes)
{
    put_number(file, bytes, 8);
    fwrite(text, 1, bytes, file);
}

static void put_pair(FILE *file, const struct shape *shape, const char *key, size_t key_bytes, uint64_t value)
{
    char whole[96];
    int bytes = snprintf(whole, sizeof whole, "%s.%.*s", shape->arch, (int)key_bytes, key);
    put_text(file, whole, (size_t)bytes);
    put_number(file, 4, 4);
    put_number(file, value, 4);
}

static uint64_t count_pairs(const char *meta)
{
    uint64_t pairs = 0;
    for (; *meta != '\0'; meta++) {
        pairs += *meta == '=' ? 1u : 0u;
    }
    return pairs;
}

static bool write_gguf(struct making *m)
{
    static const char arch[] = "general.architecture";
    const struct shape *shape = m->shape;
    uint64_t offset = 0;
    FILE *file = create(m, "model.gguf");
    if (file == NULL) {
        return false;
    }
    fputs("GGUF", file);
    put_number(file, 3, 4);
    put_number(file, m->count, 8);
    put_number(file, count_pairs(shape->meta) + 6, 8);
    put_text(file, arch, sizeof arch - 1);
    put_number(file, 8, 4);
    put_text(file, shape->arch, strlen(shape->arch));
    put_pair(file, shape, "block_count", 11, m->layers);
    put_pair(file, shape, "expert_count", 12, m->experts);
    put_pair(file, shape, "expert_used_count", 17, shape->top_k);
    put_pair(file, shape, "context_length", 14, shape->ctx);
    put_pair(file, shape, "vocab_size", 10, shape->rows[0].dims[0]);
    for (const char *at = shape->meta; *at != '\0'; at = strchr(at, ' ') + 1) {
        const char *equals = strchr(at, '=');
        put_pair(file, shape, at, (size_t)(equals - at), strtoul(equals + 1, NULL, 10));
    }
    for (uint32_t i = 0; i < m->count; i++) {
        const struct tensor *tensor = &m->tensors[i];
        put_text(file, tensor->name, strlen(tensor->name));
        put_number(file, tensor->dims[1] > 0 ? 2 : 1, 4);
        if (tensor->dims[1] > 0) {
            put_number(file, tensor->dims[1], 8);
        }
        put_number(file, tensor->dims[0], 8);
        put_number(file, types[tensor->type].gguf, 4);
        put_number(file, offset, 8);
        offset += (tensor->bytes + 31) / 32 * 32;
    }
    uint64_t header = ((uint64_t)ftell(file) + 31) / 32 * 32;
    int bytes = snprintf(m->made->path, sizeof m->made->path, "%s/model.gguf", m->request->folder);
    return finish(file, header + offset) && bytes < (int)sizeof m->made->path;
}

bool headers_make(const struct headers_request *request, struct headers_made *made)
{
    struct making m = {.request = request, .made = made};
    for (uint32_t i = 0; headers_shape(i) != NULL; i++) {
        m.shape = strcmp(request->shape, headers_shape(i)) == 0 ? &shapes[i] : m.shape;
    }
    *made = (struct headers_made){.tensors = 0};
    if (m.shape == NULL) {
        errno = EINVAL;
        return false;
    }
    m.layers = request->layers > 0 ? request->layers : m.shape->layers;
    m.experts = request->experts > 0 ? request->experts : m.shape->experts;
    made->files = request->gguf ? 1 : request->files > 0 ? request->files : m.shape->files;
    bool fine = add_all(&m);
    made->tensors = m.count;
    fine = fine && (request->gguf ? write_gguf(&m) : write_safetensors(&m));
    int code = errno;
    free(m.tensors);
    errno = code;
    return fine;
}
