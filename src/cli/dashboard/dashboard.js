'use strict';
// All text from outside is set as text, never as HTML.
const $ = (id) => document.getElementById(id);
const SVG = 'http://www.w3.org/2000/svg';
const LOG = 300;
const POINTS = 2000;
const TREE = 63;
// Number of sums from which the pace is computed.
const LAST = 5;

function el(name, attributes, ...children) {
  const node = SHAPES.has(name) ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === true) node.setAttribute(key, '');
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
const SHAPES = new Set(['svg', 'line', 'circle', 'text', 'polyline', 'title']);

function bytes(count) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (count >= 1000 && unit + 1 < units.length) { count /= 1000; unit += 1; }
  return `${count.toFixed(unit > 0 && count < 9.95 ? 1 : 0)} ${units[unit]}`;
}
const short = (value) => Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
const clock = (seconds) => about.virtual ? `${seconds.toFixed(1)} s` : new Date(seconds * 1000).toTimeString().slice(0, 8);
function list(names, most) {
  if (names.length <= most) return names.join(', ');
  return `${names.slice(0, most).join(', ')} and ${names.length - most} others`;
}

let about = { nodes: [] };
let nodes = [];
let chosen = 0;
let over = false;
let seen = 0;
const log = [];

function fresh(name) {
  return {
    name, status: null, arrived: 0, stage: null, slots: null, opened: new Map(), curves: new Map(),
    trouble: [], result: null, files: [], done: false, ended: null, why: new Map(), view: null, error: null,
  };
}

function begin(told) {
  const same = about.nodes.length === told.nodes.length && about.start === told.start;
  about = told;
  if (same) return;
  log.length = 0;
  document.title = `${told.title} - flyswarm`;
  $('title').textContent = told.title;
  $('kind').textContent = told.kind;
  $('about').textContent = told.about;
  $('leave-line').hidden = !told.leave;
  $('privacy-section').hidden = !told.privacy;
  $('privacy').textContent = told.privacy || '';
  show(told.nodes);
}

function show(names) {
  nodes = names.map((node) => fresh(node));
  chosen = 0;
  $('nodes-section').hidden = nodes.length < 2;
  $('nodes').replaceChildren(...nodes.map((node, at) => {
    const tile = el('button', { type: 'button', class: 'tile', 'aria-pressed': at === chosen });
    tile.addEventListener('click', () => { chosen = at; draw(); });
    return tile;
  }));
}

function happened(told) {
  const event = told.event;
  const node = told.node === null ? null : nodes[told.node];
  if (told.text && event.event !== 'stage') {
    const bad = BAD.has(event.event) || (event.event === 'ended' && !event.well);
    log.unshift({ time: event.time, node: node && nodes.length > 1 ? node.name : '', text: told.text, bad });
    log.length = Math.min(log.length, LOG);
  }
  if (event.event === 'run') show(event.nodes);
  if (event.report) reported = report();
  if (!node) return;
  switch (event.event) {
    case 'stage':
      node.stage = event;
      node.slots = event.slots;
      break;
    case 'view':
      node.view = event.view;
      break;
    case 'view-failed':
    case 'blamed':
    case 'stranger':
    case 'twin':
    case 'refused':
    case 'state-lost':
      node.trouble.push({ time: event.time, text: told.text });
      break;
    case 'disconnected':
      node.why.set(event.peer, event.reason);
      link(node, event.peer, 'lost');
      break;
    case 'joined':
      link(node, event.peer, 'connected');
      break;
    case 'opened':
      node.opened.set(event.number, event);
      break;
    case 'figures':
      for (const [name, value] of Object.entries(event.figures)) {
        if (typeof value !== 'number' || name === 'round') continue;
        if (!node.curves.has(name)) node.curves.set(name, []);
        const curve = node.curves.get(name);
        const x = Number((/\d+$/.exec(event.aggregate) || [event.number])[0]);
        if (curve.length < POINTS && !(curve.length && curve[curve.length - 1][0] >= x)) curve.push([x, value]);
      }
      break;
    case 'finished':
      node.result = event;
      node.done = true;
      if (event.result && event[event.result]) node.files.push([event.result, event[event.result]]);
      break;
    case 'receipt':
      if (event.file) node.files.push(['receipt', event.file]);
      if (event.page) node.files.push(['report', event.page]);
      break;
    case 'budget':
      $('privacy').textContent = `${about.privacy} ${event.spent}`;
      break;
    case 'error':
      node.error = event.message;
      break;
    case 'ended':
      node.ended = event;
      break;
    case 'own-rows':
      if (event.left_out.length) node.trouble.push({ time: event.time, text: told.text });
      break;
    case 'warning':
      node.trouble.push({ time: event.time, text: told.text });
      break;
  }
}
// Sets the state of a link now; the next status confirms it half a second later.
function link(node, name, state) {
  const other = node.status && node.status.peers.find((peer) => peer.name === name);
  if (other && other.link !== 'blamed') other.link = state;
}
const BAD = new Set(['view-failed', 'blamed', 'disconnected', 'refused', 'twin', 'error', 'state-lost']);

const LINKS = {
  unseen: ['', 'not seen yet'], connected: ['good', 'connected'], lost: ['bad', 'lost'],
  refused: ['bad', 'another session file'], blamed: ['bad', 'broke a rule'],
};
const dot = (kind) => el('span', { class: `dot ${kind}`, 'aria-hidden': 'true' });
const dead = (node) => node.error || (node.ended && !node.ended.well);

function waitText(node) {
  if (dead(node)) return node.error || node.ended.text;
  if (over || node.ended) return node.done ? 'The session is over.' : 'The node has ended.';
  const waits = node.status && node.status.waits;
  if (!waits && about.virtual) return node.done ? 'Has its result.' : '';
  if (!waits) return node.done ? 'The node has its result.' : 'The node is starting.';
  const who = list(waits.peers, 8);
  switch (waits.what) {
    case 'roster': return who ? `Waiting for ${who} to connect` : 'All peers are connected';
    case 'enough': return who ? `Too few peers: waiting for ${who}` : 'Too few peers';
    case 'view': return 'Waiting for the committee to propose a view';
    case 'others': return who ? `${who} continue without this peer; it joins them later.` : 'Fetches the results that the others have.';
    case 'connections': return who ? `Waiting for connections to ${who}` : 'Waiting for connections';
    case 'word': return who ? `Waiting for ${who}` : 'Adding up vectors with its neighbours';
    case 'exchange': return `Exchanges messages with ${who}.`;
    case 'computation': return 'This peer is computing';
    case 'results': return who ? `Has its result. Waits until ${who} have theirs.` : 'Has its result. All others have theirs.';
    default: return '';
  }
}
const LEFT = {
  roster: 'begins without them, if enough others are connected, in', enough: 'gives up in', view: 'gives up in',
  connections: 'timeout in', word: 'timeout in', computation: 'may take at most', results: 'leaves at the latest in',
};

function leftText(node) {
  const waits = node.status && node.status.waits;
  if (over || node.ended || dead(node) || !waits || waits.seconds === null || !LEFT[waits.what]) return '';
  const left = about.virtual ? waits.seconds : Math.max(0, waits.seconds - (performance.now() - node.arrived) / 1000);
  return `${LEFT[waits.what]} ${duration(left)}`;
}
function duration(seconds) {
  if (seconds < 120) return `${Math.ceil(seconds)} s`;
  return seconds < 7200 ? `${Math.ceil(seconds / 60)} min` : `${Math.ceil(seconds / 3600)} h`;
}

const STAGES = ['keys', 'compute', 'sum', 'accept', 'release', 'open'];
const DOES = {
  keys: 'exchanges keys', compute: 'computes its vector', sum: 'sums the vectors up the tree', accept: 'the committee decides',
  release: 'collects shares to open the sum', open: 'opens the sum',
};
function stageText(node) {
  if (node.done) return 'has its result';
  if (!node.stage) return node.view ? `in view ${node.view}` : 'no view yet';
  return `${node.stage.slot || 'keys'}: ${DOES[String(node.stage.stage).toLowerCase()] || node.stage.stage}`;
}
function share(node) {
  if (node.done) return 1;
  if (!node.slots) return 0;
  const stage = node.stage ? Math.max(0, STAGES.indexOf(String(node.stage.stage).toLowerCase())) : 0;
  const slot = node.stage ? node.stage.number : 0;
  return Math.min(1, (slot + stage / STAGES.length) / node.slots);
}
function bar(part, label, kind) {
  const percent = Math.round(100 * part);
  const fill = el('i');
  fill.style.width = `${percent}%`;
  return el('div', { class: `bar ${kind || ''}`, role: 'progressbar', 'aria-valuenow': percent, 'aria-valuemin': 0, 'aria-valuemax': 100, 'aria-label': label }, fill);
}
const TEXTS = new Set(['Connection', 'Members']);
function table(caption, heads, rows) {
  const head = el('tr', null, ...heads.map((name) => el('th', { scope: 'col', class: TEXTS.has(name) ? 'text' : '' }, name)));
  return el('div', { class: 'wide' },
    el('table', null, el('caption', null, caption), el('thead', null, head), el('tbody', null, ...rows)));
}
const empty = (text) => el('p', { class: 'soft' }, text);

function drawTiles() {
  nodes.forEach((node, at) => {
    const tile = $('nodes').children[at];
    const others = node.status ? node.status.peers : [];
    const kind = dead(node) ? 'bad' : node.done ? 'good' : node.status || node.stage ? 'wait' : '';
    tile.className = dead(node) ? 'tile dead' : 'tile';
    tile.setAttribute('aria-pressed', at === chosen);
    const dots = others.length <= 40 ? others.map((other) => {
      const mark = dot(LINKS[other.link][0]);
      mark.title = `${other.name}: ${LINKS[other.link][1]}`;
      return mark;
    }) : [];
    tile.replaceChildren(
      el('strong', null, dot(kind), node.name), el('span', null, dead(node) ? 'has failed' : stageText(node)),
      bar(share(node), `${node.name}: how far the session is`), el('span', null, waitText(node)),
      el('span', { class: 'dots' }, ...dots));
  });
}

function drawNow(node) {
  const what = waitText(node);
  if ($('what').textContent !== what) $('what').textContent = what;
  $('what').className = dead(node) ? 'what bad' : 'what';
  $('sum').replaceChildren(bar(share(node), 'How far the session is'));
  $('pace').textContent = paceText(node);
  const opened = node.slots && !node.done ? `; ${node.opened.size} of ${node.slots} sums are opened` : '';
  $('stage').textContent = stageText(node) + opened;
}

// Returns the time that the other sums will take at the pace of the last ones.
function paceText(node) {
  const times = [...node.opened.values()].map((event) => event.time).slice(-LAST);
  if (node.done || over || dead(node) || !node.slots || times.length < LAST) return '';
  // If the current sum already takes longer than the last ones, its time is the pace.
  const idle = about.virtual ? 0 : Date.now() / 1000 - times[LAST - 1];
  const pace = Math.max(idle, (times[LAST - 1] - times[0]) / (LAST - 1));
  return `about ${duration(pace * (node.slots - node.opened.size))} left at the pace of the last ${LAST} sums`;
}

function drawMoved(node) {
  const sum = node.status && node.status.sum;
  if (!sum || !(sum.size > 0) || node.done) return $('moved').replaceChildren();
  const way = (name, done, kind) => [
    el('h3', null, `${sum.aggregate} ${name} the tree: ${bytes(done)} of ${bytes(sum.size)}`),
    bar(done / sum.size, `${sum.aggregate} ${name} the tree`, kind)];
  $('moved').replaceChildren(...way('up', sum.up, ''), ...way('down', sum.down, 'two'));
}

function drawPeers(node) {
  const peers = node.status ? node.status.peers : [];
  if (!peers.length) return $('peers').replaceChildren(empty('Nobody yet.'));
  const rows = peers.slice(0, 200).map((peer) => {
    const [kind, text] = LINKS[peer.link];
    const why = peer.link === 'lost' && node.why.get(peer.name);
    const trip = peer.round_trip_ms === null ? '' : `${short(Number(peer.round_trip_ms.toFixed(2)))} ms`;
    const state = el('td', { class: 'text' }, dot(kind), el('span', { class: kind === 'bad' ? 'bad' : '' }, why ? `${text}: ${why}` : `${text}${peer.link === 'connected' && peer.relayed ? ', through a relay' : ''}`));
    return el('tr', { 'data-peer': peer.name, 'data-link': peer.link }, el('th', { scope: 'row' }, peer.name), state,
      el('td', null, trip));
  });
  $('peers').replaceChildren(table('Other peers', ['Peer', 'Connection', 'Round trip'], rows), ...others(peers));
}
const others = (peers) => peers.length > 200 ? [empty(`and ${peers.length - 200} others`)] : [];

function drawTree(node) {
  // Members of the view; each follows its parent.
  const members = node.status ? node.status.tree : [];
  const tree = members.map(([name]) => name);
  const above = members.map(([, parent]) => tree.indexOf(parent));
  const level = [];
  const place = [];
  const width = [];
  above.forEach((parent, at) => {
    level[at] = at === 0 ? 0 : level[parent] + 1;
    width[level[at]] = (width[level[at]] || 0) + 1;
    place[at] = width[level[at]];
  });
  const levels = width.length;
  if (!tree.length || over || node.ended) return $('tree').replaceChildren(empty(node.done || over || node.ended ? 'The views are over.' : 'There is no view now.'));
  if (tree.length > TREE) {
    return $('tree').replaceChildren(empty(`${tree.length} members in ${levels} levels, led by ${tree[0]}; ${node.name} is at level ${level[tree.indexOf(node.name)] + 1}.`));
  }
  const total = Math.max(420, Math.max(...width) * 74);
  const at = (i) => [(place[i] - 0.5) * total / width[level[i]], 26 + level[i] * 62];
  const links = new Map((node.status.peers).map((peer) => [peer.name, peer.link]));
  const picture = el('svg', { viewBox: `0 0 ${total} ${levels * 62}`, role: 'img', 'aria-label': `The tree of the view, led by ${tree[0]}: ${list(tree, 12)}` });
  tree.forEach((name, i) => {
    if (i === 0) return;
    const [x, y] = at(i);
    const [px, py] = at(above[i]);
    picture.append(el('line', { class: 'edge', x1: px, y1: py, x2: x, y2: y }));
  });
  tree.forEach((name, i) => {
    const [x, y] = at(i);
    const gone = links.get(name) && links.get(name) !== 'connected' && links.get(name) !== 'unseen';
    picture.append(
      el('circle', { class: `node ${name === node.name ? 'me' : ''} ${gone ? 'gone' : ''}`, cx: x, cy: y, r: 9 }, el('title', null, name)),
      el('text', { class: 'mid ink', x, y: y + 24 }, name.length > 10 && tree.length > 8 ? `${name.slice(0, 9)}.` : name));
  });
  const width100 = tree.length > 15 ? el('div', { class: 'wide', tabindex: 0, role: 'region', 'aria-label': 'Tree of the view' }, picture) : picture;
  if (tree.length > 15) picture.style.minWidth = `${total / 2}px`;
  $('tree').replaceChildren(width100);
}

function curve(name, points) {
  // Accuracies are shares: they are shown as percent.
  const shown = name.endsWith('accuracy') ? (value) => `${(100 * value).toFixed(1)} %` : short;
  const [w, h, left, right, top, bottom] = [430, 190, 52, 12, 12, 26];
  const xs = points.map((point) => point[0]);
  const ys = points.map((point) => point[1]).filter(Number.isFinite);
  const [x0, x1] = [Math.min(...xs), Math.max(...xs)];
  let [y0, y1] = [Math.min(...ys), Math.max(...ys)];
  if (y0 === y1) { y0 -= 0.5; y1 += 0.5; }
  const x = (value) => left + (x1 === x0 ? 0.5 : (value - x0) / (x1 - x0)) * (w - left - right);
  const y = (value) => top + (1 - (value - y0) / (y1 - y0)) * (h - top - bottom);
  const last = points[points.length - 1];
  const picture = el('svg', { viewBox: `0 0 ${w} ${h}`, role: 'img', 'aria-label': `${name}: ${points.length} points, the last ${shown(last[1])}`, 'data-curve': name, 'data-points': points.length });
  for (const value of [y0, (y0 + y1) / 2, y1]) {
    picture.append(el('line', { class: 'grid', x1: left, x2: w - right, y1: y(value), y2: y(value) }),
      el('text', { class: 'end', x: left - 6, y: y(value) + 4 }, shown(Number(value.toPrecision(3)))));
  }
  picture.append(el('text', { class: 'mid', x: x(x0), y: h - 6 }, short(x0)));
  if (x1 !== x0) picture.append(el('text', { class: 'end', x: w - right, y: h - 6 }, short(x1)));
  picture.append(el('polyline', { class: 'curve', points: points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(' ') }),
    el('circle', { class: 'point', cx: x(last[0]), cy: y(last[1]), r: 4 }));
  return el('div', null, el('h3', null, `${name[0].toUpperCase()}${name.slice(1).replaceAll('_', ' ')}: ${shown(last[1])}`), picture);
}

function drawRounds(node) {
  $('rounds-section').hidden = node.curves.size === 0;
  $('rounds').replaceChildren(...[...node.curves].slice(0, 8).map(([name, points]) => curve(name, points)));
}

function drawSums(node) {
  const opened = [...node.opened.values()];
  if (!opened.length) return $('sums').replaceChildren(empty(node.slots ? `None of ${node.slots} is opened yet.` : 'None yet.'));
  const rows = opened.slice(-12).reverse().map((event) => el('tr', null, el('th', { scope: 'row' }, event.aggregate),
    el('td', null, clock(event.time)), el('td', { class: 'text' }, list(event.members, 6))));
  const title = `${opened.length} of ${node.slots ?? '?'} are opened${opened.length > 12 ? '; the last twelve' : ''}.`;
  $('sums').replaceChildren(empty(title), table('Sums that were opened', ['Aggregate', 'Opened', 'Members'], rows));
}

function drawStages(node) {
  const { stages, peers } = node.status || { stages: [], peers: [] };
  if (!stages.length) return $('stages').replaceChildren(empty('No bytes yet.'));
  const most = Math.max(...stages.map((stage) => stage.sent + stage.received), 1);
  const row = (name, { sent, received }, ...more) => el('tr', null, el('th', { scope: 'row' }, name),
    el('td', null, bytes(sent)), el('td', null, bytes(received)), ...more.map((part) => el('td', null, part)));
  const rows = stages.map((stage) => row(stage.stage, stage, bar((stage.sent + stage.received) / most, stage.stage)));
  const each = peers.slice(0, 200).map((peer) => row(peer.name, peer));
  $('stages').replaceChildren(table('Bytes by stage', ['Stage', 'Sent', 'Received', 'Part of all'], rows),
    el('div', null, table('Bytes by peer', ['Peer', 'Sent', 'Received'], each), ...others(peers)));
}

function drawTrouble(node) {
  $('trouble-section').hidden = node.trouble.length === 0;
  $('trouble').replaceChildren(el('ul', null, ...node.trouble.slice(-30).reverse().map((each) =>
    el('li', null, `${clock(each.time)} ${each.text}`))));
}

function drawEnd(node) {
  const told = node.result && node.result.result;
  $('end-section').hidden = !told && !dead(node);
  if (dead(node)) return $('end').replaceChildren(el('p', { class: 'bad' }, node.error || node.ended.text));
  if (!told) return;
  const facts = [];
  const fact = (name, text) => { if (text) facts.push(el('dt', null, name), el('dd', null, text)); };
  fact(told, node.result.digest);
  if (node.result.own_rows) fact('own rows', node.result.own_rows.text);
  fact('summary', node.result.summary);
  for (const [name, file] of new Map(node.files)) fact(`${name} file`, file);
  $('end').replaceChildren(el('dl', null, ...facts));
}

function drawLog() {
  $('log').replaceChildren(...log.map((line) => el('li', { class: line.bad ? 'bad' : '' },
    el('time', null, clock(line.time)), line.node ? el('b', null, line.node) : null, line.text)));
}

let planned = false;
function draw() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => {
    planned = false;
    const node = nodes[chosen];
    if (!node) return;
    if (nodes.length > 1) drawTiles();
    $('now-title').textContent = nodes.length > 1 ? `Now, at ${node.name}` : 'Now';
    drawNow(node); drawMoved(node); drawPeers(node); drawTree(node); drawRounds(node); drawSums(node); drawStages(node);
    drawTrouble(node); drawEnd(node); drawLog();
    count();
  });
}
function count() {
  const node = nodes[chosen];
  const left = node ? leftText(node) : '';
  if ($('left').textContent !== left) $('left').textContent = left;
}

function line(kind, text) {
  $('line-dot').className = `dot ${kind}`;
  $('line').textContent = text;
}

// The report comes while flyswarm still runs; it stays in the page.
let reported = null;
async function report() {
  try {
    const answer = kept ? new Response(kept.report) : await fetch('report');
    if (!answer.ok) return;
    const frame = el('iframe', { title: 'The report of the session', sandbox: '' });
    frame.srcdoc = await answer.text();
    $('report-place').replaceChildren(frame);
    $('report').hidden = false;
  } catch { /* The files are named above. */ }
}

let sure = false;
$('leave').addEventListener('click', async () => {
  if (!sure) {
    sure = true;
    $('leave').className = 'sure';
    $('leave').textContent = 'Leave now';
    $('leave-hint').textContent = 'Click again to leave. The state is kept: the peer can join again.';
    setTimeout(() => {
      if ($('leave').disabled) return;
      sure = false;
      $('leave').className = '';
      $('leave').textContent = 'Leave the session';
      $('leave-hint').textContent = '';
    }, 6000);
    return;
  }
  $('leave').disabled = true;
  try {
    const answer = await fetch('leave', { method: 'POST' });
    $('leave-hint').textContent = answer.ok ? 'It leaves.' : (await answer.text()).trim();
  } catch { $('leave-hint').textContent = 'flyswarm does not respond.'; }
});

// A stored page contains all its data; a live page receives them from flyswarm.
const kept = JSON.parse($('kept').textContent);
const source = kept ? null : new EventSource('events');
const takers = {};
function on(name, take) {
  takers[name] = (told, message) => { take(told, message); draw(); };
  if (source) source.addEventListener(name, (message) => takers[name](JSON.parse(message.data), message));
}
if (source) {
  source.addEventListener('open', () => line('good', 'live'));
  source.addEventListener('error', () => { if (!over) line('bad', 'flyswarm does not respond; this is the last known state'); });
}
on('about', begin);
on('happened', (told, message) => {
  const id = Number(message.lastEventId);
  if (id <= seen) return;
  seen = id;
  happened(told);
});
on('missed', (count) => { log.unshift({ time: Date.now() / 1000, node: '', text: `${count} earlier events are no longer kept`, bad: false }); });
on('status', (told) => {
  const node = nodes[told.node];
  if (!node) return;
  node.status = told.status;
  node.arrived = performance.now();
});
on('over', async () => {
  over = true;
  $('leave-line').hidden = true;
  await reported;
  line('', 'flyswarm has ended; this page stays as it is');
  // flyswarm waits until the stream is closed before it exits.
  if (source) source.close();
});
if (kept) kept.told.forEach(([name, told, id]) => takers[name](told, { lastEventId: id }));
setInterval(count, 250);
