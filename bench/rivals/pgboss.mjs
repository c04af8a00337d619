// pg-boss behind one line of JSON for each load: {"load": "push", "batch": 100, "seconds": 2, "callers": 8} and its answer.
import { createRequire } from 'node:module'
import readline from 'node:readline'

const require = createRequire(`${process.argv[3]}/`)
const Boss = require('pg-boss')
// From version 11 on a call inserts into one queue; before, each job names its own.
const named = Number(require('pg-boss/package.json').version.split('.')[0]) >= 11
const boss = new (Boss.PgBoss ?? Boss)({ connectionString: process.argv[2], max: 10, supervise: false, schedule: false })
boss.on('error', error => console.error(error))
await boss.start()
await boss.createQueue('bench')

const note = 'x'.repeat(170)
let number = 0
const data = () => ({ n: number++, note })
const seconds = () => performance.now() / 1000

async function push (batch) {
  if (batch === 1) await boss.send('bench', data())
  else {
    const jobs = Array.from({ length: batch }, () => ({ name: 'bench', data: data() }))
    await (named ? boss.insert('bench', jobs) : boss.insert(jobs))
  }
}

async function take (batch) {
  const jobs = await boss.fetch('bench', { batchSize: batch })
  if (jobs.length) await boss.complete('bench', jobs.map(job => job.id))
  return jobs
}

async function race (callers, length, work) {
  const end = seconds() + length
  const one = async () => {
    let done = 0
    while (seconds() < end) {
      const count = await work()
      if (!count) break
      done += count
    }
    return done
  }
  return (await Promise.all(Array.from({ length: callers }, one))).reduce((a, b) => a + b, 0)
}

// Its workers look for jobs twice a second at most.
async function delivery (rate, length) {
  const sent = new Map()
  const times = []
  const worker = await boss.work('bench', { batchSize: 100, pollingIntervalSeconds: 0.5 }, async jobs => {
    for (const job of jobs) if (sent.has(job.data.n)) times.push(seconds() - sent.get(job.data.n))
  })
  const started = seconds()
  for (let turn = 0; turn < rate * length; turn++) {
    await new Promise(resolve => setTimeout(resolve, Math.max(started + turn / rate - seconds(), 0) * 1000))
    const one = data()
    sent.set(one.n, seconds())
    boss.send('bench', one)
  }
  await new Promise(resolve => setTimeout(resolve, 1500))
  await boss.offWork({ id: worker }).catch(() => boss.offWork('bench'))
  return times
}

const loads = {
  fill: async ({ count, callers }) => {
    let left = count
    await race(callers, 600, async () => { if (left <= 0) return 0; left -= 500; await push(500); return 500 })
    return count
  },
  push: ({ batch, seconds: length, callers }) => race(callers, length, async () => { await push(batch); return batch }),
  take: ({ batch, seconds: length, callers }) => race(callers, length, async () => (await take(batch)).length),
  delivery: ({ rate, seconds: length }) => delivery(rate, length)
}

console.log(JSON.stringify('ready'))
for await (const line of readline.createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line)
  console.log(JSON.stringify(await loads[asked.load](asked)))
}
await boss.stop({ graceful: false })
process.exit(0)
