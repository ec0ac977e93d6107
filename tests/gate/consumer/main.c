/* SPDX-License-Identifier: MIT
 * What a host program does with an installed Berth: includes berth.h, samples a token, reads an error. host_calls
 * counts calls that the library made into the host's own functions of the same names (taken.c): there must be none. */
#include <berth.h>
#include <stdio.h>
#include <string.h>

extern int host_calls;

int main(void)
{
    static unsigned long long memory[4096];
    const float logits[4] = {0.0f, 1.0f, 3.0f, 2.0f};
    berth_sampler_config config = BERTH_SAMPLER_CONFIG_INIT;
    config.temperature = 0.5f;
    config.top_k = 2;
    berth_sampler *sampler = NULL;
    berth_error err;
    if (berth_sampler_init(memory, sizeof memory, 4, &config, &sampler, &err) != BERTH_OK) {
        printf("sampler refused: %s\n", err.message);
        return 1;
    }
    int32_t id = berth_sampler_pick(sampler, logits);
    if (id != 2 && id != 3) {
        printf("picked %d, want 2 or 3\n", (int)id);
        return 1;
    }
    berth_plan plan = BERTH_PLAN_INIT;
    if (berth_plan_memory("no-such-model.gguf", NULL, &plan, &err) == BERTH_OK ||
        strstr(err.path, "no-such-model.gguf") == NULL || err.message[0] == '\0') {
        printf("a missing file was planned, or its error has no text\n");
        return 1;
    }
    if (host_calls != 0) {
        printf("the library called %d functions of the host\n", host_calls);
        return 1;
    }
    printf("berth %s: %s\n", berth_version(), berth_status_text(BERTH_OK));
    return 0;
}
