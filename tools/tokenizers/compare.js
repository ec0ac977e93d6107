// SPDX-License-Identifier: MIT
// Compares Berth's tokenizers with a reference; for development, no test runs it.
//
//   node compare.js vectors TEXT_CASES VOCAB.gguf             against VOCAB.gguf.inp and .out beside it
//   node compare.js reference TEXT_CASES DIR|tokenizer.json [COUNT] [SEED]
//                                                             against the npm package tokenizers, on generated texts
//   node compare.js pair TEXT_CASES GGUF DIR|tokenizer.json [COUNT] [SEED]
//                                                             the GGUF file against the same reference
//
// TEXT_CASES is the program of that name in a build directory (cases.c). `tokenizers` (0.23.2 was used) is looked for
// from the current directory. EXTRA=FILE adds the texts of a file in the .inp format. Prints the differences it finds (at most 10) and equal/total.
'use strict';
const fs = require('fs');
const path = require('path');
const { spawnSync } = require('child_process');
const { createRequire } = require('module');

const BOS = 1, SPECIAL = 2;

function runCases(program, model, cases) {
  const parts = [];
  for (const c of cases) {
    const text = Buffer.from(c.text, 'utf8');
    const head = Buffer.alloc(8);
    head.writeUInt32LE(c.flags, 0);
    head.writeUInt32LE(text.length, 4);
    parts.push(head, text);
  }
  const done = spawnSync(program, [model], { input: Buffer.concat(parts), maxBuffer: 1 << 30 });
  process.stderr.write(done.stderr);
  if (done.status !== 0) process.exit(1);
  let at = 0;
  return cases.map(() => {
    const status = done.stdout.readInt32LE(at);
    const count = done.stdout.readInt32LE(at + 4);
    at += 8;
    const ids = [];
    for (let i = 0; i < count; i++, at += 4) ids.push(done.stdout.readInt32LE(at));
    const bytes = done.stdout.readUInt32LE(at);
    const text = done.stdout.toString('utf8', at + 4, at + 4 + bytes);
    at += 4 + bytes;
    return { status, ids, text };
  });
}

function readInp(file) {
  return fs.readFileSync(file, 'utf8').split('\n__ggml_vocab_test__\n');
}

// A small generator, so that a seed names a run.
function random(seed) {
  let s = seed >>> 0;
  return (n) => {
    s = (s + 0x6d2b79f5) >>> 0;
    let t = Math.imul(s ^ (s >>> 15), 1 | s);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % n;
  };
}

const WORDS = ('the of and to in is that for it as was with be by on not he his but at are this have from or had an they which ' +
  'one you were all her she there would their we him been has when who will no more if out so up said what its about than ' +
  'kernel schedule inode mutex MoE Mixture-of-Experts tokenizer BPE internationalization antidisestablishmentarianism ' +
  "I'm don't you'LL we've IT'S 'tis rock'n'roll HTTP2Server camelCaseWord snake_case_word SCREAMING_CASE x86_64 v1.2.3").split(' ');
const CODE = ['for (int i = 0; i < n; i++) {', '\treturn a->b[i] * 3.14159e-10f;', '}', '#include <stdio.h>', 'def f(x, *args, **kw):',
  '    return lambda y: x + y', 'SELECT * FROM t WHERE a = \'b\' AND c != 0x7fFF;', '<div class="x">&amp;</div>', 'if __name__ == "__main__":',
  '// ------------------------------', '/* ***** */', '{"a": [1, 2.5, null], "b": "\\n\\t\\u00e9"}', '$ ls -la | grep -v "^d" > /dev/null 2>&1'];
const OTHER = ['Übergrößenträger naïve façade', 'Привет, мир! Как дела?', '你好,世界。今天天气怎么样?', '日本語のテキストとカタカナ', '한국어 문장입니다',
  'مرحبا بالعالم', 'שלום עולם', 'नमस्ते दुनिया', 'สวัสดีชาวโลก', 'Γειά σου Κόσμε', 'ꙮ𝕳𝖊𝖑𝖑𝖔', '🚀🔥👩‍👩‍👧‍👦🏳️‍🌈🇩🇪', '１２３４五六七', 'ﬁﬂﬃ', 'e\u0301a\u0308o\u0302n\u0303',
  '\u1100\u1161\u11a8', '\u212b\u2126', '½⅓²³', '௧௨௩', 'ǅ ǈ', '\u2028\u2029', '\u00a0\u202f\u3000', '\u200b\u200d\ufeff', '…—–‘’“”«»', '₿€£¥', '\u0000\u0001\u007f', '\u00ad'];
const SPACES = [' ', '  ', '   ', '        ', '\n', '\n\n', '\r\n', '\t', ' \n', '\n ', '\t\t', ' \t ', '\n\n\n ', '\u00a0', '\u3000', '\u2003', '\x0b', '\x0c', '\x85', '\u180e'];

function randomText(rand, specials) {
  const pieces = 1 + rand(rand(4) === 0 ? 40 : 8);
  let text = '';
  for (let i = 0; i < pieces; i++) {
    switch (rand(11)) {
      case 0: case 1: case 2: text += WORDS[rand(WORDS.length)]; break;
      case 3: text += CODE[rand(CODE.length)]; break;
      case 4: text += OTHER[rand(OTHER.length)]; break;
      case 5: text += String(rand(10) ** (1 + rand(9)) * (1 + rand(999))); break;
      case 6: text += '!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~'[rand(32)].repeat(1 + rand(4)); break;
      case 7: { // any code point, letters and marks more often
        for (let k = 1 + rand(4); k > 0; k--) {
          const ranges = [[0x20, 0x24f], [0x300, 0x36f], [0x370, 0x5ff], [0x600, 0x1fff], [0x2000, 0x2bff], [0x3000, 0x9fff], [0xa000, 0xd7ff], [0xe000, 0xffff], [0x10000, 0x1ffff]];
          const [low, high] = ranges[rand(ranges.length)];
          text += String.fromCodePoint(low + rand(high - low + 1));
        }
        break;
      }
      case 8: text += SPACES[rand(SPACES.length)].repeat(1 + rand(3)); break;
      case 9: text += WORDS[rand(WORDS.length)].toUpperCase().slice(0, 1 + rand(9)).repeat(1 + rand(3)); break;
      default: if (specials.length) text += specials[rand(specials.length)]; break;
    }
    if (rand(3) !== 0) text += SPACES[rand(rand(2) ? 2 : SPACES.length)];
  }
  return text;
}

function tokenizerFile(where) {
  return where.endsWith('.json') ? where : path.join(where, 'tokenizer.json');
}

function loadReference(file) {
  const load = createRequire(path.join(process.cwd(), 'x.js'));
  return load('tokenizers').Tokenizer.fromFile(file);
}

// The reference always looks for special tokens. Without SPECIAL Berth must not, so there the texts have none.
function makeCases(count, seed, json) {
  const rand = random(seed);
  const added = (json.added_tokens || []);
  const special = added.filter((t) => t.special).map((t) => t.content);
  const plain = added.filter((t) => !t.special).map((t) => t.content);
  const cases = [];
  for (const text of [process.env.EXTRA ? readInp(process.env.EXTRA) : [], ['', ' ', '\n', 'a', '\u0301']].flat()) {
    cases.push({ text, flags: SPECIAL });
    cases.push({ text, flags: SPECIAL | BOS });
  }
  while (cases.length < count) {
    const flags = rand(2) ? SPECIAL : 0;
    let text = randomText(rand, flags ? special.concat(plain) : plain);
    if (!flags && special.some((s) => text.includes(s))) continue;
    cases.push({ text, flags: flags | (rand(4) ? 0 : BOS) });
  }
  return cases;
}

function differ(what, c, got, want) {
  console.log(`${what} (flags ${c.flags}) ${JSON.stringify(c.text).slice(0, 300)}`);
  console.log('  got ', JSON.stringify(got).slice(0, 300));
  console.log('  want', JSON.stringify(want).slice(0, 300));
}

async function compareReference(program, model, where, count, seed) {
  const file = tokenizerFile(where);
  const json = JSON.parse(fs.readFileSync(file, 'utf8'));
  const reference = loadReference(file);
  const cases = makeCases(count, seed, json);
  const answers = runCases(program, model, cases);
  let equal = 0, decoded = 0, shown = 0;
  for (let i = 0; i < cases.length; i++) {
    const c = cases[i];
    const encoding = await reference.encode(c.text, null, { addSpecialTokens: (c.flags & BOS) !== 0 });
    const ids = Array.from(encoding.getIds());
    const same = answers[i].status === 0 && JSON.stringify(ids) === JSON.stringify(answers[i].ids);
    equal += same;
    if (!same && shown++ < 10) differ('ids', c, answers[i].ids, ids);
    const text = await reference.decode(answers[i].ids, true);
    decoded += text === answers[i].text;
    if (text !== answers[i].text && shown++ < 10) differ('text', c, answers[i].text, text);
  }
  console.log(`${model}: ids ${equal}/${cases.length}, decoded texts ${decoded}/${cases.length} (seed ${seed})`);
  return equal === cases.length && decoded === cases.length;
}

function compareVectors(program, model) {
  const texts = readInp(model + '.inp');
  const wanted = fs.readFileSync(model + '.out', 'utf8').split('\n');
  const cases = texts.map((text) => ({ text, flags: 0 }));
  const answers = runCases(program, model, cases);
  let equal = 0;
  for (let i = 0; i < cases.length; i++) {
    const want = wanted[i].trim() === '' ? [] : wanted[i].trim().split(/\s+/).map(Number);
    const same = JSON.stringify(want) === JSON.stringify(answers[i].ids);
    equal += same;
    if (!same) differ('ids', cases[i], answers[i].ids, want);
  }
  console.log(`${path.basename(model)}: ids ${equal}/${cases.length}`);
  return equal === cases.length;
}

async function main() {
  const [mode, program, model, ...rest] = process.argv.slice(2);
  let ok;
  if (mode === 'vectors') ok = compareVectors(program, model);
  else if (mode === 'reference') ok = await compareReference(program, model, model, Number(rest[0] || 3000), Number(rest[1] || 1));
  else if (mode === 'pair') ok = await compareReference(program, model, rest[0], Number(rest[1] || 3000), Number(rest[2] || 1));
  else { console.error('usage: compare.js vectors|reference|pair ...'); process.exit(2); }
  process.exit(ok ? 0 : 1);
}
main();
