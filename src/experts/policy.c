/* SPDX-License-Identifier: MIT
 * The table of eviction policies. */
#include "experts/policy.h"

#include <stdio.h>
#include <string.h>

static const struct policy_row *const rows[] = {&policy_next_use,     &policy_lru,  &policy_lfru,
                                                &policy_layer_lru,    &policy_seed, &policy_belady,
                                                &policy_belady_bypass};
enum { ROWS_COUNT = sizeof rows / sizeof rows[0] };

berth_status policy_find(const char *name, const struct policy_row **out, const char **options, berth_error *err)
{
    char names[240] = "";
    size_t used = 0;
    const char *colon = name != NULL ? strchr(name, ':') : NULL;
    size_t bytes = name == NULL ? 0 : (colon != NULL ? (size_t)(colon - name) : strlen(name));
    for (uint32_t i = 0; i < ROWS_COUNT; i++) {
        if (name == NULL || (strncmp(rows[i]->name, name, bytes) == 0 && rows[i]->name[bytes] == '\0')) {
            *out = rows[i];
            if (options != NULL) {
                *options = colon != NULL ? colon + 1 : "";
            }
            return BERTH_OK;
        }
        int wrote = snprintf(names + used, sizeof names - used, "%s%s%s", i == 0 ? "" : ", ", rows[i]->name,
                             rows[i]->replay_only ? " (berth replay only)" : "");
        used += wrote > 0 && (size_t)wrote < sizeof names - used ? (size_t)wrote : 0;
    }
    berth_status status =
        error_set(err, BERTH_ERR_ARGUMENT, "unknown eviction policy, got \"%.60s\", wanted one of: %s", name, names);
    error_at_object(err, "policy", strlen("policy"));
    return status;
}

const char *policy_default_name(void)
{
    return rows[0]->name;
}

const struct policy_row *policy_at(uint32_t i)
{
    return i < ROWS_COUNT ? rows[i] : NULL;
}

/* ---- options -------------------------------------------------------------------------------------------- */

/* The next "key=value" of *at. False at the end. */
static bool next_option(const char **at, const char **key, size_t *key_bytes, const char **value, size_t *value_bytes)
{
    if (**at == '\0') {
        return false;
    }
    size_t bytes = strcspn(*at, ",");
    size_t name = strcspn(*at, "=,");
    *key = *at;
    *key_bytes = name;
    *value = *at + name + (name < bytes ? 1 : 0);
    *value_bytes = name < bytes ? bytes - name - 1 : 0;
    *at += bytes + ((*at)[bytes] == ',' ? 1 : 0);
    return true;
}

static bool key_is(const char *key, size_t bytes, const char *name)
{
    return strncmp(key, name, bytes) == 0 && name[bytes] == '\0';
}

berth_status policy_option(const char *options, const char *key, uint64_t *value, berth_error *err)
{
    const char *name;
    const char *text;
    size_t name_bytes;
    size_t text_bytes;
    while (next_option(&options, &name, &name_bytes, &text, &text_bytes)) {
        if (!key_is(name, name_bytes, key)) {
            continue;
        }
        uint64_t number = 0;
        bool good = text_bytes > 0 && text_bytes <= 15;
        for (size_t i = 0; i < text_bytes && good; i++) {
            good = text[i] >= '0' && text[i] <= '9';
            number = number * 10 + (uint64_t)(text[i] - '0');
        }
        if (!good) {
            return error_set(err, BERTH_ERR_ARGUMENT, "policy option %s: got \"%.*s\", wanted a whole number", key,
                             (int)text_bytes, text);
        }
        *value = number;
    }
    return BERTH_OK;
}

berth_status policy_check_options(const char *options, const char *const *keys, berth_error *err)
{
    const char *name;
    const char *text;
    size_t name_bytes;
    size_t text_bytes;
    while (next_option(&options, &name, &name_bytes, &text, &text_bytes)) {
        bool known = false;
        for (const char *const *key = keys; *key != NULL; key++) {
            known = known || key_is(name, name_bytes, *key);
        }
        if (!known) {
            return error_set(err, BERTH_ERR_ARGUMENT, "the policy has no option \"%.*s\"", (int)name_bytes, name);
        }
    }
    return BERTH_OK;
}
