// e2b.mjs DIR: a session of the npm package e2b, unchanged, against a daemon. DIR/node_modules has
// the package; E2B_API_KEY, E2B_API_URL and E2B_SANDBOX_URL say where the daemon is. Prints a line
// "ok NAME" or "not ok NAME: WHY" for each check, and ends with 1 if one has failed.
import { createRequire } from 'node:module'

const require = createRequire(`${process.argv[2]}/`)
const sdk = require('e2b')
const { Sandbox } = sdk
const template = process.env.E2B_TEMPLATE ?? 'base'
const has = (name) => sdk[name] !== undefined
const version = require('e2b/package.json').version.split('.').map(Number)
const since = (minor) => version[1] >= minor

let failed = 0
const say = (good, name, why) => {
  failed += good ? 0 : 1
  console.log(good ? `ok ${name}` : `not ok ${name}: ${String(why).replaceAll('\n', ' | ').slice(0, 400)}`)
}
const check = (name, good, why = '') => say(Boolean(good), name, why)
const same = (name, got, want) =>
  say(JSON.stringify(got) === JSON.stringify(want), name, `${JSON.stringify(got)}, not ${JSON.stringify(want)}`)
const fails = async (name, error, work) => {
  try {
    say(false, name, `no error but ${JSON.stringify(await work())}`)
  } catch (e) {
    say(error === '' || e.constructor.name === error || e.name === error, name, `${e.constructor.name}: ${e.message}`)
  }
}
const until = async (test) => {
  while (!(await test())) await new Promise((done) => setTimeout(done, 20))
}

// --- one sandbox: commands, files

async function commands(s) {
  const r = await s.commands.run('echo hi; echo no >&2')
  same('run: output', [r.stdout, r.stderr, r.exitCode], ['hi\n', 'no\n', 0])
  try {
    await s.commands.run('echo before; exit 7')
    say(false, 'run: a failing command throws')
  } catch (e) {
    same('run: a failing command throws', [e.constructor.name, e.exitCode, e.stdout], ['CommandExitError', 7, 'before\n'])
  }
  same('run: cwd and envs', (await s.commands.run('pwd; echo $A', { cwd: '/tmp', envs: { A: 'b c' } })).stdout, '/tmp\nb c\n')
  same('run: the home directory', (await s.commands.run('pwd; echo $HOME')).stdout, '/home/user\n/home/user\n')
  same('run: as root', (await s.commands.run('id -un', { user: 'root' })).stdout, 'root\n')
  same('run: variables of the sandbox', (await s.commands.run('echo $FROM')).stdout, 'creation\n')
  const lines = []
  await s.commands.run('for i in 1 2 3; do echo $i; done', { onStdout: (t) => void lines.push(t) })
  same('run: output by callbacks', lines.join(''), '1\n2\n3\n')
  same('run: a large output', (await s.commands.run('head -c 1000000 /dev/zero | tr "\\0" x')).stdout.length, 1000000)
  same('run: UTF-8', (await s.commands.run('printf "h\\303\\251llo \\342\\202\\254"')).stdout, 'héllo €')
  await fails('run: a missing cwd', 'InvalidArgumentError', () => s.commands.run('true', { cwd: '/nowhere' }))
  await fails('run: a deadline', 'TimeoutError', () => s.commands.run('sleep 100', { timeoutMs: 1000 }))
  await until(async () => !(await s.commands.list()).some((p) => p.args.join(' ').includes('sleep 100')))
  check('run: the deadline ends the process', true)

  const h = await s.commands.run('echo begun; cat; echo over', { background: true, stdin: true })
  check('background: a pid', h.pid > 0, h.pid)
  const listed = (await s.commands.list()).find((p) => p.pid === h.pid)
  same('background: listed', [listed?.cmd, listed?.args?.[2]], ['/bin/bash', 'echo begun; cat; echo over'])
  await s.commands.sendStdin(h.pid, 'typed\n')
  if (s.commands.closeStdin) {
    await s.commands.closeStdin(h.pid)
    same('background: input, and its end', (await h.wait()).stdout, 'begun\ntyped\nover\n')
  } else {
    await until(() => h.stdout.includes('typed'))
    check('background: input', true)
    await h.kill()
  }
  const k = await s.commands.run('sleep 1000', { background: true })
  same('kill: a process', await s.commands.kill(k.pid), true)
  await fails('kill: waiting for it throws', 'CommandExitError', () => k.wait())
  same('kill: one that is not there', await s.commands.kill(99999), false)

  const d = await s.commands.run('while ! [ -e /tmp/go ]; do sleep 0.05; done; echo went', { background: true, timeoutMs: 0 })
  await d.disconnect()
  const again = await s.commands.connect(d.pid)
  same('connect: the same process', again.pid, d.pid)
  await s.files.write('/tmp/go', '')
  same('connect: its output', (await again.wait()).stdout, 'went\n')
  await fails('connect: a pid that is not there', 'NotFoundError', () => s.commands.connect(99999))
}

async function files(s) {
  const info = await s.files.write('/home/user/dir/a.txt', 'text')
  same('write: a file and its directory', [info.path, info.name, info.type], ['/home/user/dir/a.txt', 'a.txt', 'file'])
  same('read: text', await s.files.read('/home/user/dir/a.txt'), 'text')
  same('read: bytes', [...(await s.files.read('/home/user/dir/a.txt', { format: 'bytes' }))], [116, 101, 120, 116])
  same('read: a relative path', await s.files.read('dir/a.txt'), 'text')
  await s.files.write('/home/user/dir/a.txt', 'other')
  same('write: over a file', await s.files.read('/home/user/dir/a.txt'), 'other')
  await s.files.write('empty', '')
  same('write: an empty file', await s.files.read('empty'), '')
  const big = new Uint8Array(3_000_000).map((_, i) => i * 7)
  await s.files.write('big', big.buffer)
  same('write: three million bytes', Buffer.compare(Buffer.from(await s.files.read('big', { format: 'bytes' })), Buffer.from(big)), 0)
  same('write: what commands see', (await s.commands.run('cat dir/a.txt; stat -c %s big')).stdout, 'other3000000\n')
  await s.files.write("we'ird \"näme\".txt", 'x')
  same('write: a name with quotes', await s.files.read("we'ird \"näme\".txt"), 'x')
  const many = await s.files.write([{ path: 'm/1', data: 'one' }, { path: 'm/2', data: 'two' }])
  same('write: many files', many.map((i) => i.path), ['/home/user/m/1', '/home/user/m/2'])
  same('write: each of them', [await s.files.read('m/1'), await s.files.read('m/2')], ['one', 'two'])
  let streamed = ''
  for await (const piece of await s.files.read('m/1', { format: 'stream' })) streamed += Buffer.from(piece).toString()
  same('read: a stream', streamed, 'one')
  await fails('read: a missing file', has('FileNotFoundError') ? 'FileNotFoundError' : 'NotFoundError', () => s.files.read('nothing'))
  await fails('read: a directory', 'InvalidArgumentError', () => s.files.read('/home/user'))

  same('exists', [await s.files.exists('m/1'), await s.files.exists('m/3')], [true, false])
  same('makeDir: new, and again', [await s.files.makeDir('p/q'), await s.files.makeDir('p/q')], [true, false])
  const moved = await s.files.rename('m/2', 'p/new/2')
  same('rename', [moved.path, await s.files.read('p/new/2'), await s.files.exists('m/2')], ['/home/user/p/new/2', 'two', false])
  await fails('rename: a missing file', has('FileNotFoundError') ? '' : 'NotFoundError', () => s.files.rename('m/9', 'm/8'))
  const one = await s.files.getInfo('m/1')
  same('getInfo', [one.name, one.type, one.size, one.mode, one.permissions, one.owner], ['1', 'file', 3, 0o644, '-rw-r--r--', 'root'])
  check('getInfo: its time', Math.abs(Date.now() - one.modifiedTime) < 3_600_000, one.modifiedTime)
  await s.commands.run('mkdir -p /tmp/l/d/e && echo 1 >/tmp/l/f && echo 2 >/tmp/l/d/g')
  same('list: a directory', (await s.files.list('/tmp/l')).map((e) => `${e.type} ${e.path}`).sort(), ['dir /tmp/l/d', 'file /tmp/l/f'])
  same('list: to a depth', (await s.files.list('/tmp/l', { depth: 2 })).map((e) => e.path).sort(), ['/tmp/l/d', '/tmp/l/d/e', '/tmp/l/d/g', '/tmp/l/f'])
  await fails('list: a missing directory', '', () => s.files.list('/tmp/nothing'))
  await s.files.remove('/tmp/l')
  same('remove: a tree', await s.files.exists('/tmp/l'), false)
  await s.files.remove('/tmp/l')
  check('remove: what is not there', true)
}

async function watches(s) {
  await s.files.makeDir('w/sub')
  const seen = []
  const w = await s.files.watchDir('w', (e) => void seen.push(`${e.type} ${e.name}`), { recursive: true, timeoutMs: 0 })
  await s.files.write('w/sub/a', '1')
  await s.commands.run('mv w/sub/a w/b && rm w/b')
  await until(() => ['create sub/a', 'rename sub/a', 'create b', 'remove b'].every((e) => seen.includes(e)))
  check('watchDir: a file is made, moved and removed', true)
  await w.stop()
  await fails('watchDir: a missing directory', '', () => s.files.watchDir('none', () => {}))
}

async function links(s) {
  await s.files.write('signed', 'for all')
  const get = async (url) => { const r = await fetch(url); return [r.status, await r.text()] }
  same('downloadUrl', await get(await s.downloadUrl('signed')), [200, 'for all'])
  same('downloadUrl: for a while', await get(await s.downloadUrl('signed', { useSignatureExpiration: 60 })), [200, 'for all'])
  const url = await s.downloadUrl('signed')
  same('downloadUrl: of another path', (await get(url.replace('path=signed', 'path=other')))[0], 401)
  const form = new FormData()
  form.append('file', new Blob(['sent']), 'ignored')
  same('uploadUrl', (await fetch(await s.uploadUrl('sent'), { method: 'POST', body: form })).status, 200)
  same('uploadUrl: the file', await s.files.read('sent'), 'sent')
}

async function terminal(s) {
  let text = ''
  const t = await s.pty.create({ cols: 80, rows: 24, onData: (d) => void (text += Buffer.from(d).toString()) })
  check('pty: a pid', t.pid > 0)
  await s.pty.sendInput(t.pid, Buffer.from('stty size; echo $((40+2))\n'))
  await until(() => text.includes('24 80') && text.includes('42'))
  check('pty: input and output', true)
  await s.pty.resize(t.pid, { cols: 100, rows: 30 })
  await s.pty.sendInput(t.pid, Buffer.from('stty size\n'))
  await until(() => text.includes('30 100'))
  check('pty: resize', true)
  same('pty: kill', await s.pty.kill(t.pid), true)
}

// --- the life of sandboxes

async function life(s) {
  const info = await s.getInfo()
  same('getInfo: state and metadata', [info.sandboxId, info.state ?? 'running', info.metadata], [s.sandboxId, 'running', { 'a b': 'x&y', run: process.env.E2B_RUN ?? '1' }])
  check('getInfo: times', info.endAt > info.startedAt, JSON.stringify(info))
  same('isRunning', await s.isRunning(), true)
  await s.setTimeout(600_000)
  check('setTimeout', (await s.getInfo()).endAt - Date.now() > 500_000)
  const m = await s.getMetrics()
  check('getMetrics', m.length === 1 && m[0].memTotal > 0 && m[0].diskTotal > 0, JSON.stringify(m))

  const page = Sandbox.list({ query: { metadata: { 'a b': 'x&y' } } })
  same('list: by metadata', (await page.nextItems()).map((i) => i.sandboxId), [s.sandboxId])
  const none = Sandbox.list({ query: { metadata: { 'a b': 'other' } } })
  same('list: by other metadata', (await none.nextItems()).length, 0)
  const second = await Sandbox.create(template, { timeoutMs: 60_000 })
  const all = Sandbox.list({ limit: 1 })
  const first = await all.nextItems()
  same('list: the newest first, page by page', [first[0].sandboxId, all.hasNext, (await all.nextItems())[0].sandboxId, all.hasNext], [second.sandboxId, true, s.sandboxId, false])
  same('kill', [await Sandbox.kill(second.sandboxId), await Sandbox.kill(second.sandboxId)], [true, false])
  await fails('connect: a killed one', '', () => Sandbox.connect(second.sandboxId))
  same('isRunning: a killed one', await second.isRunning(), false)
}

async function pauses(s) {
  await s.commands.run('echo kept >/tmp/kept')
  const h = await s.commands.run('while ! [ -e /tmp/stop ]; do sleep 0.05; done', { background: true, timeoutMs: 0 })
  const pause = () => (s.pause ? s.pause() : s.betaPause())
  await pause()
  same('pause: the state', (await s.getInfo()).state, 'paused')
  same('pause: isRunning', await s.isRunning(), false)
  await h.wait().then(
    () => check('pause: its streams end with an error', false),
    (e) => check('pause: its streams end with an error', e.constructor.name === 'TimeoutError' || since(0), e.message),
  )
  if (s.pause && since(30)) same('pause: again', await s.pause(), false)
  await fails('pause: a command', '', () => s.commands.run('true'))
  await fails('pause: a file', '', () => s.files.read('/tmp/kept'))
  const paused = Sandbox.list({ query: { state: ['paused'] } })
  same('pause: listed as paused', (await paused.nextItems()).map((i) => i.sandboxId), [s.sandboxId])
  const c = await Sandbox.connect(s.sandboxId, { timeoutMs: 300_000 })
  same('connect: the same id, its files', [c.sandboxId, await c.files.read('/tmp/kept')], [s.sandboxId, 'kept\n'])
  check('connect: its processes', (await c.commands.list()).some((p) => p.pid === h.pid))
  const again = await c.commands.connect(h.pid)
  await c.files.write('/tmp/stop', '')
  same('connect: a process goes on', (await again.wait()).exitCode, 0)
  same('connect: a running one', (await Sandbox.connect(s.sandboxId)).sandboxId, s.sandboxId)
}

async function autos() {
  const s = await Sandbox.create(template, since(20) ? { timeoutMs: 60_000, lifecycle: { onTimeout: 'pause', autoResume: true } } : { timeoutMs: 60_000 })
  if (since(20)) {
    await s.files.write('/tmp/x', 'y')
    const h = await s.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
    await s.setTimeout(1)
    await until(async () => (await s.getInfo()).state === 'paused')
    check('autoPause: paused at its end', true)
    await fails('autoPause: its streams end with an error', '', () => h.wait())
    same('autoResume: a file', await s.files.read('/tmp/x'), 'y')
    same('autoResume: the state', (await s.getInfo()).state, 'running')
  }
  await s.kill()
  const d = await Sandbox.create(template, { timeoutMs: 60_000 })
  await d.setTimeout(1)
  await until(async () => !(await d.isRunning()))
  check('timeout: a sandbox ends', true)
  await fails('timeout: getInfo of it', '', () => d.getInfo())
}

async function branches(s) {
  await s.files.write('/tmp/branch', 'source')
  if (s.createSnapshot) {
    const snap = await s.createSnapshot()
    check('createSnapshot', snap.snapshotId, JSON.stringify(snap))
    const c = await Sandbox.create(snap.snapshotId)
    same('create: from a snapshot', await c.files.read('/tmp/branch'), 'source')
    check('create: from a snapshot, another id', c.sandboxId !== s.sandboxId)
    await c.kill()
    same('deleteSnapshot', await Sandbox.deleteSnapshot(snap.snapshotId), true)
  }
  if (s.fork) {
    const forks = await s.fork({ count: 2 })
    same('fork: two', forks.length, 2)
    for (const f of forks) {
      const b = f.sandbox ?? f
      same('fork: its files', await b.files.read('/tmp/branch'), 'source')
      await b.files.write('/tmp/branch', b.sandboxId)
      same('fork: kill', await b.kill(), true)
    }
    same('fork: the source is untouched', await s.files.read('/tmp/branch'), 'source')
  }
  if (sdk.Template?.exists) {
    same('Template.exists', [await sdk.Template.exists(template), await sdk.Template.exists('no-such-template')], [true, false])
  }
}

async function refusals(s) {
  await fails('create: an unknown template', '', () => Sandbox.create('no-such-template'))
  await fails('a wrong key', 'AuthenticationError', () => Sandbox.create(template, { apiKey: `e2b_${'0'.repeat(64)}` }))
  await fails('an unknown id', '', () => Sandbox.connect('00000000000000000000'))
  const r = await fetch(`${process.env.E2B_SANDBOX_URL}/files?path=/etc/passwd`, { headers: { 'E2b-Sandbox-Id': s.sandboxId, 'X-Access-Token': 'wrong' } })
  same('a wrong access token', [r.status, (await r.json()).code], [401, 401])
  await fails('create: metadata that is not text', '', async () => {
    const b = await fetch(`${process.env.E2B_API_URL}/sandboxes`, { method: 'POST', headers: { 'X-API-Key': process.env.E2B_API_KEY }, body: '{"templateID":"base","metadata":{"a":1}}' })
    if (b.status === 400 && (await b.json()).code === 400) throw new Error('refused')
  })
}

const s = await Sandbox.create(template, { timeoutMs: 300_000, metadata: { 'a b': 'x&y', run: process.env.E2B_RUN ?? '1' }, envs: { FROM: 'creation' } })
check('create: an id', /^[a-z0-9]+$/.test(s.sandboxId), s.sandboxId)
for (const part of [commands, files, watches, links, terminal, life, pauses, branches, autos, refusals]) {
  if (process.env.E2B_ONLY && process.env.E2B_ONLY !== part.name) continue
  try {
    await part(s)
  } catch (e) {
    say(false, part.name, e.stack)
  }
}
same('kill: at the end', await Sandbox.kill(s.sandboxId), true)
process.exit(failed ? 1 : 0)
