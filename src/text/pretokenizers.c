/* SPDX-License-Identifier: MIT
 * Patterns are those of the models' published tokenizer.json or tiktoken files, in Oniguruma syntax; where a family
 * has none, what its GGUF converter hashes to the name. */
#include "text/pretokenizers.h"

#include <stddef.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define CL100K(digits) CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES
/* Words in capitals, then in small letters, with a contraction behind. */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(upper, lower, end) \
    "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" end "|[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower "*" end
#define NOT_HAN "&&[^\\p{Han}]]"
#define CJK "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define DEEPSEEK3_WORDS                                                                                  \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" \
    " ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES
/* Letters with case, as DeepSeek LLM lists them. */
#define DEEPSEEK_LETTERS                                                                                               \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}\\x{295}-\\x{2af}"   \
    "\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}"     \
    "\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}"       \
    "\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}"                  \
    "\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}"                  \
    "\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}"          \
    "\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}"         \
    "\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}"          \
    "\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}" \
    "\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}"           \
    "\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}"                  \
    "\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}"                  \
    "\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}"        \
    "\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"
#define DEEPSEEK_CJK "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
#define BLOOM_WORDS " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"

/* clang-format off */
static const struct pretokenizers_row rows[] = {
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     PRE_WHOLE_WORDS | PRE_BOS, {CL100K("\\p{N}{1,3}")}},
    {"dbrx smaug-bpe glm4 chatglm-bpe", 0, {CL100K("\\p{N}{1,3}")}},
    {"qwen2 deepseek-r1-qwen", PRE_NFC, {CL100K("\\p{N}")}},
    {"stablelm2 hunyuan megrez solar-open grok-2 kormo f2llmv2", 0, {CL100K("\\p{N}")}},
    {"qwen35", PRE_NFC,
     {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES}},
    {"deepseek-llm", 0,
     {"[\\r\\n]", "\\s?[" DEEPSEEK_LETTERS "]+", "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+",
      "\\s+$", DEEPSEEK_CJK, "\\p{N}+"}},
    {"deepseek-coder", 0, {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_CJK, "\\p{N}"}},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4", 0, {"\\p{N}{1,3}", CJK, DEEPSEEK3_WORDS}},
    {"gpt-2 phi-2 gigachat a.x-4.0 mellum modern-bert jais trillion granite-docling exaone4", 0, {GPT2}},
    {"olmo mpt", PRE_NFC, {GPT2}},
    {"starcoder refact smollm codeshell exaone minerva-7b mellum2", 0, {"\\p{N}", GPT2}},
    {"command-r", PRE_NFC, {"\\p{N}", GPT2}},
    {"falcon", 0, {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {"default", 0, {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {"tekken", PRE_WHOLE_WORDS | PRE_BOS,
     {CASED(UPPER, LOWER, "") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES}},
    {"gpt-4o llama4 kanana2 talkie minimax-m2", 0,
     {CASED(UPPER, LOWER, CONTRACTIONS "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES}},
    {"kimi-k2", 0,
     {"\\p{Han}+|" CASED("[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}" NOT_HAN, "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}" NOT_HAN, CONTRACTIONS "?")
      "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES}},
    {"bailingmoe bailingmoe2 llada-moe", 0,
     {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {"seed-coder", 0, {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACES}},
    /* Nothing follows the words of this one, so that they may as well not be given back: no frames are kept. */
    {"exaone-moe", 0,
     {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*+(?: \\p{L}\\p{M}*+)*+)++|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|"
      "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {"laguna", 0, {"[^\\n]+|[\\n]+", CL100K("\\p{N}")}},
    {"minicpm5", PRE_WHOLE_WORDS, {"\\p{N}{1,3}", CL100K("\\p{N}+")}},
    {"tiny_aya cohere2moe", 0,
     {"\\d{1,3}(?=(?:\\d{3})*\\b)",
      CASED(UPPER, LOWER, CONTRACTIONS "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES}},
    {"poro-chat bloom gpt3-finnish", 0, {BLOOM_WORDS}},
    {"viking", 0, {BLOOM_WORDS, "\\p{N}"}},
};
/* clang-format on */

const struct pretokenizers_row *pretokenizers_find(struct str name)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct str names = str_from(rows[i].names);
        while (names.bytes != 0) {
            const char *space = memchr(names.ptr, ' ', names.bytes);
            size_t bytes = space == NULL ? names.bytes : (size_t)(space - names.ptr);
            if (str_equal((struct str){names.ptr, bytes}, name)) {
                return &rows[i];
            }
            size_t taken = space == NULL ? bytes : bytes + 1;
            names = (struct str){names.ptr + taken, names.bytes - taken};
        }
    }
    return NULL;
}
