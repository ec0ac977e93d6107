/* SPDX-License-Identifier: MIT */
#include "base/str.h"

int utf8_sequence(const unsigned char *ptr, size_t bytes)
{
    if (bytes == 0) {
        return 0;
    }
    unsigned char lead = ptr[0];
    if (lead < 0x80) {
        return 1;
    }
    unsigned low = 0x80;
    unsigned high = 0xbf;
    int length;
    if (lead >= 0xc2 && lead <= 0xdf) {
        length = 2;
    } else if (lead >= 0xe0 && lead <= 0xef) {
        length = 3;
        low = lead == 0xe0 ? 0xa0 : low;
        high = lead == 0xed ? 0x9f : high;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
        length = 4;
        low = lead == 0xf0 ? 0x90 : low;
        high = lead == 0xf4 ? 0x8f : high;
    } else {
        return 0;
    }
    for (int i = 1; i < length; i++) {
        if ((size_t)i >= bytes) {
            return -i;
        }
        if (ptr[i] < low || ptr[i] > high) {
            return 0;
        }
        low = 0x80;
        high = 0xbf;
    }
    return length;
}

bool utf8_is_valid(const char *ptr, size_t bytes)
{
    size_t at = 0;
    while (at < bytes) {
        uint64_t eight;
        if (bytes - at >= sizeof eight) { /* names and texts are mostly ASCII */
            memcpy(&eight, ptr + at, sizeof eight);
            if ((eight & 0x8080808080808080u) == 0) {
                at += sizeof eight;
                continue;
            }
        }
        int length = utf8_sequence((const unsigned char *)ptr + at, bytes - at);
        if (length <= 0) {
            return false;
        }
        at += (size_t)length;
    }
    return true;
}
