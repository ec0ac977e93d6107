// SPDX-License-Identifier: MIT
// Writes the committed vectors of the tokenizer tests with the npm package tokenizers (0.23.2 was used) as the reference:
//
//   node vectors.js handmade > tests/golden/text/handmade.jsonl
//   node vectors.js pieces > tests/golden/text/pieces.jsonl
//   node vectors.js file tests/golden/pocket/tokenizer.json [TEXTS.inp] > tests/golden/pocket/tokenizer_cases.jsonl
//
// `tokenizers` is looked for from the current directory. A case is {text, flags, ids, decoded}: flags as in berth.h (1
// template, 2 special tokens), decoded without special tokens. The reference always looks for special tokens; what
// Berth must do without that flag is what it does when they are not in the list of added tokens.
'use strict';
const fs = require('fs');
const path = require('path');
const { createRequire } = require('module');
const { Tokenizer } = createRequire(path.join(process.cwd(), 'x.js'))('tokenizers');

function random(seed) {
  let s = seed >>> 0;
  return (n) => {
    s = (s + 0x6d2b79f5) >>> 0;
    let t = Math.imul(s ^ (s >>> 15), 1 | s);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % n;
  };
}

async function answer(json, cases) {
  const full = Tokenizer.fromString(JSON.stringify(json));
  const hidden = json.added_tokens.map((t) => (t.special ? { ...t, content: `\ue000${t.content}\ue000` } : t)); // keeps the others' ids
  const plain = Tokenizer.fromString(JSON.stringify({ ...json, added_tokens: hidden, post_processor: json.post_processor }));
  const out = [];
  for (const { text, flags } of cases) {
    const encoding = await (flags & 2 ? full : plain).encode(text, null, { addSpecialTokens: (flags & 1) !== 0 });
    const ids = Array.from(encoding.getIds());
    out.push({ text, flags, ids, decoded: await full.decode(ids, true) });
  }
  return out;
}

// ---- handmade tokenizers ----

const ALPHABET = ['a', 'b', 'B', '1', '2', '-', ' ', '_', '\n', 'é', '\u0301', 'e', '½', '▁', '中', '.'];

// Characters and all pairs of some, so that the cuts between pieces show in the ids.
function makeModel(options = {}) {
  const byteLevel = options.byteLevel;
  const alphabet = byteLevel ? ['a', 'b', 'B', '1', '2', '-', 'Ġ', 'Ċ', 'Ã', '©', 'Ì', 'ģ', 'e', 'Â', '½', '_', '.'] : ALPHABET.concat(options.extra || []);
  const vocab = {};
  const put = (token) => { if (!(token in vocab)) vocab[token] = Object.keys(vocab).length; };
  if (options.unk) put(options.unk);
  for (const token of options.first || []) put(token);
  alphabet.filter((c) => !(options.without || '').includes(c)).forEach(put);
  const merges = [];
  const pairable = (byteLevel ? ['a', 'b', '1', '-', 'Ġ', '_', 'Ã', '©'] : ['a', 'b', '1', '-', ' ', '_', 'e', '▁', '中'].concat(options.extra || []));
  for (const a of pairable) {
    for (const b of pairable) {
      if (!(a in vocab) || !(b in vocab)) continue;
      merges.push([a, b]);
      put(a + b);
    }
  }
  for (const [a, b] of [['ab', 'ab'], ['a', 'bb'], ['aa', 'aa'], ['aaaa', 'aaaa'], ['11', '11']]) {
    if (b === 'bb') { merges.push(['bb', 'a']); put('bba'); continue; }
    merges.push([a, b]);
    put(a + b);
  }
  (options.last || []).forEach(put);
  return { type: 'BPE', dropout: null, unk_token: options.unk || null, continuing_subword_prefix: null, end_of_word_suffix: null,
    fuse_unk: !!options.fuse, byte_fallback: !!options.fallback, ignore_merges: !!options.whole, vocab, merges: options.strings ? merges.filter((m) => !m.join('').includes(' ')).map((m) => m.join(' ')) : merges };
}

function added(id, content, flags = {}) {
  return { id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: false, ...flags };
}

// Ids of added tokens are written as the library numbers them: behind the vocabulary.
function tokenizer(parts) {
  const size = Object.keys((parts.model || makeModel()).vocab).length;
  const shift = (id) => (id >= 900 ? id - 900 + size : id);
  const renumber = (value, key) => (Array.isArray(value) ? value.map((v) => renumber(v, key)) : value && typeof value === 'object' ?
    Object.fromEntries(Object.entries(value).map(([k, v]) => [k, k === 'vocab' ? v : renumber(v, k)])) : ['id', 'ids', 'cls', 'sep'].includes(key) && typeof value === 'number' ? shift(value) : value);
  parts = renumber(parts);
  return { version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null,
    model: makeModel(), ...parts };
}

const split = (pattern, behavior, invert = false) => ({ type: 'Split', pattern, behavior, invert });
const byteLevel = (add_prefix_space, use_regex) => ({ type: 'ByteLevel', add_prefix_space, trim_offsets: true, use_regex });
const sequence = (key, ...steps) => ({ type: 'Sequence', [key]: steps });
const template = (before, after, ids) => ({ type: 'TemplateProcessing',
  single: [...before.map((id) => ({ SpecialToken: { id, type_id: 0 } })), { Sequence: { id: 'A', type_id: 0 } }, ...after.map((id) => ({ SpecialToken: { id, type_id: 0 } }))],
  pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 1 } }],
  special_tokens: Object.fromEntries(Object.entries(ids).map(([id, list]) => [id, { id, ids: list, tokens: list.map(() => id) }])) });

function makeHandmade() {
  const all = {};
  all['plain'] = tokenizer({});
  all['merges as strings'] = tokenizer({ model: { ...makeModel({ strings: true }) } });
  all['merges as strings'].model.merges.unshift('#version: 0.2');
  all['a pair merged twice, the later rank counts'] = tokenizer({});
  all['a pair merged twice, the later rank counts'].model.merges.push(['a', 'b'], ['-', '-']);
  all['ignore_merges'] = tokenizer({ model: makeModel({ whole: true, last: ['ab1-', 'B2', '½½'] }), pre_tokenizer: split({ Regex: '\\s+' }, 'Isolated') });
  all['ignore_merges in the byte-level alphabet'] = tokenizer({ model: makeModel({ byteLevel: true, whole: true, last: ['Ġab1', 'B2', 'Ã©Ã©'] }), pre_tokenizer: byteLevel(false, true), decoder: byteLevel(true, true) });
  const bytes = Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`);
  const spm = sequence('decoders', { type: 'Replace', pattern: { String: '▁' }, content: ' ' }, { type: 'ByteFallback' }, { type: 'Fuse' }, { type: 'Strip', content: ' ', start: 1, stop: 0 });
  all['byte_fallback'] = tokenizer({ model: makeModel({ fallback: true, first: bytes, without: 'é中\u0301' }), decoder: spm });
  all['byte_fallback, some bytes missing, unknown'] = tokenizer({ model: makeModel({ fallback: true, first: bytes.slice(0, 0xc8), without: 'é中\u0301', unk: '<unk>' }), decoder: spm });
  all['unknown'] = tokenizer({ model: makeModel({ unk: '<unk>', without: 'é2中' }) });
  all['unknown, fused'] = tokenizer({ model: makeModel({ unk: '<unk>', without: 'é2中', fuse: true }) });
  all['unknown, none'] = tokenizer({ model: makeModel({ without: 'é2中' }) });
  all['llama 2 shape'] = tokenizer({ model: makeModel({ fallback: true, fuse: true, unk: '<unk>', first: ['<s>', '</s>'].concat(bytes), without: 'é \n' }), decoder: spm,
    normalizer: sequence('normalizers', { type: 'Prepend', prepend: '▁' }, { type: 'Replace', pattern: { String: ' ' }, content: '▁' }),
    added_tokens: [added(0, '<unk>', { special: true }), added(1, '<s>', { special: true }), added(2, '</s>', { special: true })], post_processor: template(['<s>'], [], { '<s>': [1] }) });

  for (const type of ['NFC', 'NFD', 'NFKC', 'NFKD', 'Lowercase', 'StripAccents']) all[`normalizer ${type}`] = tokenizer({ normalizer: { type } });
  all['normalizer Strip'] = tokenizer({ normalizer: { type: 'Strip', strip_left: true, strip_right: true } });
  all['normalizer Strip left'] = tokenizer({ normalizer: { type: 'Strip', strip_left: true, strip_right: false } });
  all['normalizer Strip right'] = tokenizer({ normalizer: { type: 'Strip', strip_left: false, strip_right: true } });
  all['normalizer Prepend'] = tokenizer({ normalizer: { type: 'Prepend', prepend: 'ab' } });
  all['normalizer Replace'] = tokenizer({ normalizer: { type: 'Replace', pattern: { String: 'ab' }, content: '-1-' } });
  all['normalizer Replace, nothing left'] = tokenizer({ normalizer: { type: 'Replace', pattern: { String: 'a' }, content: '' } });
  all['normalizer Replace by pattern'] = tokenizer({ normalizer: { type: 'Replace', pattern: { Regex: '[ab]+|\\s{2,}' }, content: '_' } });
  all['normalizer ByteLevel'] = tokenizer({ model: makeModel({ byteLevel: true }), normalizer: { type: 'ByteLevel' }, decoder: byteLevel(true, true) });
  all['normalizer Sequence'] = tokenizer({ normalizer: sequence('normalizers', { type: 'NFD' }, { type: 'StripAccents' }, sequence('normalizers', { type: 'Lowercase' }, { type: 'NFC' })) });

  for (const behavior of ['Isolated', 'Removed', 'Contiguous', 'MergedWithPrevious', 'MergedWithNext']) {
    for (const invert of [false, true]) all[`Split ${behavior}${invert ? ' inverted' : ''}`] = tokenizer({ pre_tokenizer: split({ Regex: '-|[12]' }, behavior, invert) });
    all[`Split ${behavior} by string`] = tokenizer({ pre_tokenizer: split({ String: 'a-' }, behavior) });
    all[`Punctuation ${behavior}`] = tokenizer({ pre_tokenizer: { type: 'Punctuation', behavior } });
  }
  const patterns = ['', 'b*', '(?=b)', '(?i:b|É)', '[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,2}| ?[^\\s\\p{L}\\p{N}]+', '\\s+(?!\\S)|\\s+', '\\s*[\\r\\n]+', '\\s+$', '^a|b$', '\\h+', '\\H', '[\\h_]', '\\w+', '\\W', '[\\W]',
    '\\d', '\\D', '[^\\D]', '\\S+', '[\\S]', '[^\\S]+', '[a&&[^b]]', '[\\p{L}\\p{M}&&[^\\p{Han}]]+', '[ab1&&[a1]]', '[a[b1]-]', '\\p{^L}', '\\P{L}+', '\\p{Letter}+', '\\p{Punct}', '[\\p{Punct}]+', 'a{2}+', 'a{1,2}+b', 'a++b',
    'a{,2}', 'a{x', '(?<=a)b', '(?<!a)b', '(a)\\1', '(?>a+)b', '(?i)B|É', 'a(?i)b|1', '.', '(?m:.)+', '\\u0061', '\\x61', '\\x{e9}', '[\\x{61}-\\x{62}]', 'a\\-|\\.', '[\\]\\-a]', '[]a]', 'é|[é中]', 'a|b|', '\\b', 'a+?', 'a{1,2}?', '(?:a|-)*1', '\\v', '\\n', '\\G[ab]'];
  for (const Regex of patterns) all[`pattern ${Regex}`] = tokenizer({ pre_tokenizer: split({ Regex }, 'Isolated') });

  for (const prefix of [false, true]) {
    for (const regex of [false, true]) all[`ByteLevel${prefix ? ' prefix' : ''}${regex ? ' regex' : ''}`] = tokenizer({ model: makeModel({ byteLevel: true }), pre_tokenizer: byteLevel(prefix, regex), decoder: byteLevel(true, true) });
  }
  all['ByteLevel in the middle'] = tokenizer({ model: makeModel({ byteLevel: true }), decoder: byteLevel(true, true), pre_tokenizer: sequence('pretokenizers', { type: 'Punctuation', behavior: 'Contiguous' }, byteLevel(false, true),
    { type: 'Digits', individual_digits: true }, split({ Regex: '[ab]' }, 'MergedWithNext')) });
  all['ByteLevel, bytes missing, unknown'] = tokenizer({ model: { ...makeModel({ byteLevel: true, unk: '<unk>' }), fuse_unk: true }, pre_tokenizer: byteLevel(false, false), decoder: byteLevel(true, true) });
  for (const individual_digits of [false, true]) all[`Digits ${individual_digits}`] = tokenizer({ pre_tokenizer: { type: 'Digits', individual_digits } });
  for (const prepend_scheme of ['always', 'first', 'never']) {
    for (const cut of [false, true]) all[`Metaspace ${prepend_scheme}${cut ? ' split' : ''}`] = tokenizer({ pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme, split: cut },
      decoder: { type: 'Metaspace', replacement: '▁', prepend_scheme, split: cut }, added_tokens: [added(900, '<x>', { special: true }), added(901, '<y>')] });
  }
  all['Metaspace, old form'] = tokenizer({ pre_tokenizer: { type: 'Metaspace', replacement: '_', add_prefix_space: true }, decoder: { type: 'Metaspace', replacement: '_', add_prefix_space: true } });
  all['Whitespace'] = tokenizer({ pre_tokenizer: { type: 'Whitespace' } });
  all['WhitespaceSplit'] = tokenizer({ pre_tokenizer: { type: 'WhitespaceSplit' } });
  all['CharDelimiterSplit'] = tokenizer({ pre_tokenizer: { type: 'CharDelimiterSplit', delimiter: '-' } });
  all['Sequence of splits'] = tokenizer({ pre_tokenizer: sequence('pretokenizers', split({ Regex: '\\d' }, 'Isolated'), split({ Regex: '[ab]+' }, 'MergedWithPrevious'), { type: 'WhitespaceSplit' }) });

  all['template'] = tokenizer({ added_tokens: [added(900, '<x>', { special: true }), added(901, '<y>', { special: true })], post_processor: template(['<x>', '<y>'], ['<y>'], { '<x>': [900], '<y>': [901, 901] }) });
  all['processors in sequence'] = tokenizer({ added_tokens: [added(900, '<x>', { special: true })], post_processor: sequence('processors', byteLevel(true, true), template(['<x>'], [], { '<x>': [900] })) });
  all['RobertaProcessing'] = tokenizer({ added_tokens: [added(900, '<x>', { special: true }), added(901, '<y>', { special: true })], post_processor: { type: 'RobertaProcessing', sep: ['<y>', 901], cls: ['<x>', 900], trim_offsets: true, add_prefix_space: false } });

  const known = makeModel().vocab;
  const tokens = (...list) => {
    let next = Object.keys(known).length;
    return list.map((t) => added(t[0] in known ? known[t[0]] : next++, ...t));
  };
  all['added, longest first'] = tokenizer({ added_tokens: tokens(['-a'], ['-ab'], ['-ab1'], ['ab1-'], ['1-']) });
  all['added, special among plain'] = tokenizer({ added_tokens: tokens(['<x>', { special: true }], ['<xy', {}], ['x>', {}], ['<y>', { special: true }]) });
  all['added, already in the vocabulary'] = tokenizer({ added_tokens: [added(3, '1', { special: true }), added(0, 'a')] });
  all['added, single_word'] = tokenizer({ added_tokens: tokens(['ab', { single_word: true }], ['1-', { single_word: true }]) });
  all['added, lstrip'] = tokenizer({ added_tokens: tokens(['<x>', { lstrip: true, special: true }], ['b-', { lstrip: true }]) });
  all['added, rstrip'] = tokenizer({ added_tokens: tokens(['<x>', { rstrip: true, special: true }], ['-b', { rstrip: true }]) });
  all['added, both'] = tokenizer({ added_tokens: tokens(['<x>', { lstrip: true, rstrip: true, special: true }]) });
  all['added, normalized'] = tokenizer({ normalizer: { type: 'Lowercase' }, added_tokens: tokens(['BA', { normalized: true }], ['B1', { normalized: false }], ['-B', { normalized: true }]) });
  all['added, normalized by a prefix'] = tokenizer({ normalizer: { type: 'Prepend', prepend: '_' }, decoder: { type: 'Fuse' }, added_tokens: tokens(['ab', { normalized: true }], ['<x>', { special: true }]) });
  const newer = makeModel({ extra: NEWER });
  all['newer characters'] = tokenizer({ model: newer, pre_tokenizer: split({ Regex: '[^\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+|\\s+|\\p{N}' }, 'Isolated') });
  all['newer characters, Han'] = tokenizer({ model: newer, pre_tokenizer: split({ Regex: '\\p{Han}+|\\p{Lo}+|\\p{Ll}+' }, 'MergedWithNext') });
  all['newer characters, Digits'] = tokenizer({ model: newer, pre_tokenizer: { type: 'Digits', individual_digits: true } });
  all['decoder none'] = tokenizer({ added_tokens: tokens(['<x>', { special: true }]) });
  all['decoder Sequence'] = tokenizer({ decoder: sequence('decoders', { type: 'Replace', pattern: { String: 'a' }, content: 'bb' }, { type: 'Fuse' }) });
  all['decoder ByteLevel, a token outside the alphabet'] = tokenizer({ model: makeModel({ byteLevel: true }), pre_tokenizer: byteLevel(false, true), decoder: byteLevel(true, true), added_tokens: [added(900, 'a 中'), added(901, 'Ġb')] });
  return all;
}

// Characters of Unicode 15 to 16: a symbol, letters of three scripts, a mark, a digit, an ideograph.
const NEWER = ['🩷', '\u{13f02}', '\ua7cd', '\u{1e4d1}', '\u{11f40}', '\u{16130}', '\u{31350}'];

function handmadeText(rand, json, alphabet = ALPHABET) {
  const specials = json.added_tokens.map((t) => t.content);
  let text = '';
  for (let i = rand(rand(3) ? 12 : 24); i > 0; i--) {
    if (specials.length && rand(5) === 0) text += specials[rand(specials.length)];
    else if (rand(12) === 0) text += ['aaaaaaaaaaaaaaaa', '  ', '11111', 'ABB', '\r\n', '\t', 'é', 'é', '\u0344', 'ﬁ', 'Å', '\u2003', '🙂', '\u00a0', 'ǅ'][rand(15)];
    else text += alphabet[rand(rand(3) ? 7 : alphabet.length)];
  }
  return text;
}

async function handmade() {
  const rand = random(20);
  for (const [name, json] of Object.entries(makeHandmade())) {
    const wide = name.startsWith('pattern') ? 10 : 18;
    const special = json.added_tokens.some((t) => t.special) || json.post_processor;
    const cases = [{ text: '', flags: 3 }, { text: ' a b', flags: 2 }];
    while (cases.length < wide) {
      const text = handmadeText(rand, json, name.startsWith('newer') ? NEWER.concat(ALPHABET) : ALPHABET);
      // What a special token hides that is not looked for cannot be asked of the reference.
      cases.push({ text, flags: special ? rand(4) | (name.includes('among') ? 2 : 0) : 2 });
    }
    process.stdout.write(JSON.stringify({ name, tokenizer: json, cases: await answer(json, cases) }) + '\n');
  }
}

// ---- named pre-tokenizers: what the published patterns cut ----

const CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const GPT2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const TAIL = '\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const cl100k = (digits) => `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${TAIL}`;
const cased = (not, end) => { // not: taken out of the letters
  const upper = `[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}${not}]`;
  const lower = `[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}${not}]`;
  return `[^\\r\\n\\p{L}\\p{N}]?${upper}*${lower}+${end}|[^\\r\\n\\p{L}\\p{N}]?${upper}+${lower}*${end}`;
};
const PUBLISHED = {
  'llama-bpe': [cl100k('\\p{N}{1,3}')],
  'qwen2': [cl100k('\\p{N}')],
  'qwen35': [`${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|${TAIL}`],
  'deepseek-coder': ['[\\r\\n]', '\\s?\\p{L}+', '\\s?\\p{P}+', '[一-龥ࠀ-一가-\ud7ff]+', '\\p{N}'],
  'deepseek-v3': ['\\p{N}{1,3}', '[一-龥\u3040-ゟ゠-ヿ]+',
    `[!"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_\`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|${TAIL}`],
  'gpt-2': [GPT2],
  'starcoder': ['\\p{N}', GPT2],
  'falcon': ['[\\p{P}$+<=>^~|`]+', GPT2, '[0-9][0-9][0-9]'],
  'default': ['[\\p{P}$+<=>^~|]+', GPT2, '\\p{N}+', '[0-9][0-9][0-9]'],
  'tekken': [`${cased('', '')}|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${TAIL}`],
  'gpt-4o': [`${cased('', CONTRACTIONS + '?')}|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${TAIL}`],
  'kimi-k2': [`[\\p{Han}]+|${cased('&&[^\\p{Han}]', CONTRACTIONS + '?')}|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${TAIL}`],
  'bailingmoe': ["'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"],
  'seed-coder': [`${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|${TAIL}`],
  'exaone-moe': [`${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+`],
  'laguna': ['[^\\n]+|[\\n]+', cl100k('\\p{N}')],
  'cohere2moe': ['\\d{1,3}(?=(?:\\d{3})*\\b)', `${cased('', CONTRACTIONS + '?')}|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${TAIL}`],
  'viking': [' ?[^(\\s|.,!?…。，、।۔،)]+', '\\p{N}'],
};

function pieces() {
  const rand = random(5);
  const units = ['Hello', 'WORLD', 'camelCase', "don't", "IT'LL", "'tis", 'naïve', 'e\u0301', 'Ünïcödé', 'привет', '你好', '世界', 'ひらがな', 'カタカナ', '한국어', 'हिन्दी', 'ภาษา', 'ﬁ', 'ǅ', 'ʰ', 'ª', '12', '3456', '1234567', '½',
    '٣٤', '１２', '.', ',', '...', '!?', '-', '--', '_', '$', '+=', '<|', '|>', '(', ')', '/', '//', '。', '，', '、', '।', '🚀', '👩‍👧', '\u00a0', '\u3000', '\u2003', '\u180e', '\u200b', ' ', ' ', '  ', '    ', '\n', '\n\n', '\r\n', '\t', '\x85'];
  for (const [name, patterns] of Object.entries(PUBLISHED)) {
    const json = tokenizer({ pre_tokenizer: sequence('pretokenizers', ...patterns.map((Regex) => split({ Regex }, 'Isolated'))) });
    const cutter = Tokenizer.fromString(JSON.stringify(json)).getPreTokenizer();
    for (let i = 0; i < 14; i++) {
      let text = '';
      for (let k = 1 + rand(16); k > 0; k--) text += units[rand(units.length)] + (rand(3) ? '' : ' ');
      process.stdout.write(JSON.stringify({ name, text, pieces: cutter.preTokenizeString(text).map(([piece]) => piece) }) + '\n');
    }
  }
}

async function file(name, inp) {
  const json = JSON.parse(fs.readFileSync(name, 'utf8'));
  const rand = random(3);
  const texts = inp ? fs.readFileSync(inp, 'utf8').split('\n__ggml_vocab_test__\n') : [];
  const words = ['The', 'kernel', 'scheduler', "doesn't", 'PostgreSQL', '3.14', '2026', 'naïve', 'Übung', '<|im_start|>', '<|im_end|>', '<|endoftext|>', '<|im_', '\n', '\n\n', '  ', '\t', 'e\u0301', '日本', '🚀', 'git-rebase(1)', '--flag', 'x', 'foo_bar'];
  for (let i = 0; i < 60; i++) {
    let text = '';
    for (let k = 1 + rand(14); k > 0; k--) text += words[rand(words.length)] + (rand(3) ? ' ' : '');
    texts.push(text);
  }
  const cases = [];
  texts.forEach((text, i) => { cases.push({ text, flags: 2 }); if (i % 3 === 0) cases.push({ text, flags: 1 }); });
  for (const line of await answer(json, cases)) process.stdout.write(JSON.stringify(line) + '\n');
}

const [mode, ...rest] = process.argv.slice(2);
if (mode === 'handmade') handmade();
else if (mode === 'pieces') pieces();
else if (mode === 'file') file(...rest);
else { console.error('usage: vectors.js handmade | pieces | file TOKENIZER.json [TEXTS.inp]'); process.exit(2); }
