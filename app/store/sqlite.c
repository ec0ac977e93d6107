/* SPDX-License-Identifier: MIT */
#include "store/sqlite.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
#define SYMBOL(name)                                    \
    {                                                   \
        "sqlite3_" #name, offsetof(struct sqlite, name) \
    }
    SYMBOL(open_v2),       SYMBOL(close_v2),    SYMBOL(exec),         SYMBOL(prepare_v2),
    SYMBOL(step),          SYMBOL(reset),       SYMBOL(finalize),     SYMBOL(bind_text),
    SYMBOL(bind_int64),    SYMBOL(bind_double), SYMBOL(bind_null),    SYMBOL(column_int64),
    SYMBOL(column_double), SYMBOL(column_text), SYMBOL(busy_timeout), SYMBOL(errmsg),
#undef SYMBOL
};

const struct sqlite *sqlite_load(void)
{
    static struct sqlite functions;
    static bool tried;
    static bool loaded;
    if (!tried) {
        tried = true;
        void *library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
        loaded = library != NULL;
        for (size_t i = 0; loaded && i < sizeof symbols / sizeof symbols[0]; i++) {
            void *symbol = dlsym(library, symbols[i].name);
            *(void **)(void *)((char *)&functions + symbols[i].offset) = symbol;
            loaded = symbol != NULL;
        }
    }
    return loaded ? &functions : NULL;
}
