/* SPDX-License-Identifier: MIT
 * From the names of a safetensors release's experts to their layer and number. */
#include "family/family.h"

_Static_assert(ROLE_EXPERT_UP == ROLE_EXPERT_GATE + 1 && ROLE_EXPERT_DOWN == ROLE_EXPERT_GATE + 2, "parts in a row");

/* Cuts "before%ubetween%uafter" at its numbers. */
static bool cut(const char *pattern, struct str *before, struct str *between, struct str *after)
{
    const char *first = strchr(pattern, '%');
    const char *second = first == NULL ? NULL : strchr(first + 1, '%');
    if (second == NULL) {
        return false;
    }
    *before = (struct str){pattern, (size_t)(first - pattern)};
    *between = (struct str){first + 2, (size_t)(second - first) - 2};
    *after = str_from(second + 2);
    return true;
}

bool family_experts_begin(const struct family *family, const struct checkpoint *checkpoint,
                          const struct hparams *hparams, struct family_experts *out)
{
    *out = (struct family_experts){.hparams = hparams};
    for (int part = 0; part < 3; part++) {
        const struct tensor_row *row = family_row(family, (enum role)(ROLE_EXPERT_GATE + part));
        if (checkpoint->format == CHECKPOINT_GGUF || row == NULL || row->hf == NULL ||
            !cut(row->hf, &out->parts[part].before, &out->parts[part].between, &out->parts[part].after)) {
            return false;
        }
        out->parts[part].rows = family_dim(hparams, row->dims[0]);
        out->parts[part].k = family_dim(hparams, row->dims[1]);
    }
    return true;
}

static bool took(struct str *rest, struct str text)
{
    if (!str_starts(*rest, text)) {
        return false;
    }
    *rest = (struct str){rest->ptr + text.bytes, rest->bytes - text.bytes};
    return true;
}

/* A number below `end`, written as we would write it. */
static bool took_number(struct str *rest, uint32_t end, uint32_t *out)
{
    uint64_t number = 0;
    size_t digits = 0;
    for (; digits < rest->bytes && digits < 9 && rest->ptr[digits] >= '0' && rest->ptr[digits] <= '9'; digits++) {
        number = number * 10 + (uint64_t)(rest->ptr[digits] - '0');
    }
    bool fine = digits > 0 && (rest->ptr[0] != '0' || digits == 1) && number < end;
    *rest = (struct str){rest->ptr + digits, rest->bytes - digits};
    *out = (uint32_t)number;
    return fine;
}

bool family_expert_of(const struct family_experts *experts, const struct tensor *tensor, struct family_expert *out)
{
    const struct hparams *hparams = experts->hparams;
    for (uint32_t part = 0; part < 3; part++) {
        struct str rest = tensor->name;
        if (str_ends(rest, experts->parts[part].after) && took(&rest, experts->parts[part].before) &&
            took_number(&rest, hparams->layers, &out->layer) && hparams->layer_moe[out->layer] != 0 &&
            took(&rest, experts->parts[part].between) && took_number(&rest, hparams->experts, &out->expert) &&
            str_equal(rest, experts->parts[part].after)) {
            out->part = part;
            return tensor->dims_count == 2 && tensor->dims[0] == experts->parts[part].rows &&
                   tensor->dims[1] == experts->parts[part].k;
        }
    }
    return false;
}
