// Text as coloured nodes: diffs, Python, numbered listings, fenced code. Only text nodes and class names are made, never
// markup, so nothing in a trajectory can become more than text.
"use strict";

const LARGEST_COLOURED = 200000; // characters of one block

const PYTHON = new RegExp([
  "(?<comment>#.*)",
  "(?<string>[rbfuRBFU]{0,2}(?:\"\"\"[\\s\\S]*?(?:\"\"\"|$)|'''[\\s\\S]*?(?:'''|$)|\"(?:\\\\.|[^\"\\\\\\n])*\"?|'(?:\\\\.|[^'\\\\\\n])*'?))",
  "(?<keyword>\\b(?:False|None|True|and|as|assert|async|await|break|case|class|continue|def|del|elif|else|except|finally|for|from|global|if" +
    "|import|in|is|lambda|match|nonlocal|not|or|pass|raise|return|try|while|with|yield)\\b)",
  "(?<decorator>^[ \\t]*@[\\w.]+)",
  "(?<number>\\b\\d[\\w.]*)",
].join("|"), "gm");

// Control characters, and those that turn the direction of writing, are shown, not obeyed; colours of a terminal are left out.
function visible(text) {
  return text
    .replace(/\x1b\[[0-9;]*m/g, "")
    .replace(/\r\n/g, "\n")
    .replace(/[\x00-\x08\x0b-\x1f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f]/g,
             (c) => "[U+" + c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0") + "]");
}

function span(kind, text) {
  const node = document.createElement("span");
  node.className = kind;
  node.textContent = text;
  return node;
}

function python(text, into) {
  let last = 0;
  for (const found of text.matchAll(PYTHON)) {
    if (found.index > last) into.append(text.slice(last, found.index));
    const kind = Object.keys(found.groups).find((name) => found.groups[name] !== undefined);
    into.append(span("py-" + kind, found[0]));
    last = found.index + found[0].length;
  }
  into.append(text.slice(last));
}

function diff(text, into) {
  for (const line of text.split("\n")) {
    const row = document.createElement("span");
    if (/^(diff |index |--- |\+\+\+ |new file|deleted file|similarity|rename )/.test(line)) {
      row.className = "diff-file";
      row.textContent = line;
    } else if (line.startsWith("@@")) {
      row.className = "diff-place";
      row.textContent = line;
    } else {
      row.className = line.startsWith("+") ? "diff-added" : line.startsWith("-") ? "diff-removed" : "diff-same";
      row.append(line.slice(0, 1));
      python(line.slice(1), row);
    }
    row.append("\n");
    into.append(row);
  }
}

// Prose and code as an agent writes them: ``` fences, numbered listings, micro-SWE's `edit N: code`.
function message(text, into) {
  if (text.length > LARGEST_COLOURED) {
    into.append(text);
    return;
  }
  let fence = null;
  let block = [];
  const flush = () => {
    if (!block.length) return;
    const code = block.join("\n") + "\n";
    if (fence === "diff" || fence === "patch") diff(code, into);
    else if (fence === "python" || fence === "py") python(code, into);
    else into.append(code);
    block = [];
  };
  for (const line of text.split("\n")) {
    const mark = line.match(/^\s*```+\s*([\w+-]*)\s*$/);
    const listed = fence === null && line.match(/^(\s*\d+(?:\t| |\||: ?)|edit \d+: ?)(.*)$/);
    if (mark) {
      flush();
      into.append(span("fence", line + "\n"));
      fence = fence === null ? mark[1].toLowerCase() : null;
    } else if (listed) {
      flush();
      into.append(span("line-number", listed[1]));
      python(listed[2], into);
      into.append("\n");
    } else {
      block.push(line);
    }
  }
  flush();
}

function highlighted(text, kind) {
  const into = document.createElement("pre");
  const shown = visible(text);
  if (shown.length > LARGEST_COLOURED) into.append(shown);
  else (kind === "diff" ? diff : message)(shown, into);
  return into;
}
