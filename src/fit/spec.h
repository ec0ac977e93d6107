/* SPDX-License-Identifier: MIT
 *
 * What the headers of a checkpoint say, read once for planning and opening. Lives in its own reservation (the open
 * phase of the plan), which is released before the weights are read.
 */
#ifndef FIT_SPEC_H
#define FIT_SPEC_H

#include "compute/kernels.h"
#include "experts/catalog.h"
#include "family/family.h"
#include "forward/weights.h"
#include "text/text.h"

struct spec {
    void *region; /* the reservation that holds this struct and all it points to */
    uint64_t region_bytes;
    struct arena scratch;
    struct arena before_weights; /* scratch as it was after opening: spec_finish() */
    struct checkpoint checkpoint;
    const struct family *family; /* NULL in text mode, and when family_status is not BERTH_OK */
    struct hparams hparams;
    berth_status family_status;
    berth_error family_problem;
    struct catalog catalog; /* sealed; layers 0 for dense models */
    struct expert_formats *formats;
    const struct kernels *kernels;
    bool has_kernel[DTYPE_COUNT];
    bool is_whole;          /* spec_finish() has been here */
    char text_problem[256]; /* why there is no tokenizer though the file names one; "": none */
    struct text_size text_size;
    uint64_t text_bytes;     /* what the tokenizer takes */
    uint64_t text_bytes_max; /* longest text one call encodes */
};

/* Opens and reads; *out must be freed with spec_close(). cap_bytes bounds what headers may take. */
struct spec_request {
    const char *path;
    bool text_only;
    berth_isa isa;
    uint64_t text_bytes_max;
    uint64_t cap_bytes;
    bool may_be_less; /* when the system refuses so much address space: down to 64 MiB */
    const struct os_hooks *hooks;
};
berth_status spec_open(const struct spec_request *request, struct spec **out, berth_error *err);
/* The same in two halves, for who wants to look at the checkpoint between them, or at nothing else. The first one opens
 * the files and finds the family, or why there is none; `want` as for checkpoint_open(). The second one may be repeated
 * after it failed. */
berth_status spec_begin(const struct spec_request *request, unsigned want, struct spec **out, berth_error *err);
berth_status spec_finish(struct spec *spec, const struct spec_request *request, berth_error *err);
/* BERTH_ERR_BUDGET when the open phase so far took more than `cap_bytes`. */
berth_status spec_within(const struct spec *spec, uint64_t cap_bytes, berth_error *err);
/* As if it had been opened for texts of this length; reads nothing again. */
berth_status spec_text_again(struct spec *spec, uint64_t text_bytes_max, berth_error *err);
/* Closes the files unless they were taken over (checkpoint.files set to NULL). NULL allowed. */
void spec_close(struct spec *spec);
/* Peak of the open phase so far, of this reservation. */
uint64_t spec_peak_bytes(const struct spec *spec);

#endif
