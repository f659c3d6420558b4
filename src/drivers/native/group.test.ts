/**
 * What is written into a version 2 tree, tried on plain folders (version 1 is tried for real).
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { no_stats } from '../driver.ts';
import { groupOf, groupPids, groupStats, makeGroup, oomCounter, oomKills } from './group.ts';

function inTree(body: (tree: string) => void): void {
  const tree = mkdtempSync(join(tmpdir(), 'einsora-tree-'));
  try {
    body(tree);
  } finally {
    rmSync(tree, { recursive: true });
  }
}

const groupIn = (tree: string) =>
  groupOf({ version: 2, memory: tree, cpu: tree, accounting: tree, pids: tree }, 'mine', 'run');

test('version 2: each folder above hands the controllers on, and the limits stand', () => {
  inTree((tree) => {
    const folder = join(tree, 'einsora', 'mine', 'run');
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'memory.swap.max'), 'max');
    writeFileSync(join(tree, 'cgroup.subtree_control'), 'cpuset cpu memory pids\n');
    makeGroup(groupIn(tree), { memory_bytes: 2 ** 30, cpu_millis: 1500 });
    const read = (...names: string[]) => readFileSync(join(tree, ...names), 'utf8');
    assert.equal(read('cgroup.subtree_control'), 'cpuset cpu memory pids\n');
    assert.equal(read('einsora', 'cgroup.subtree_control'), '+memory +cpu +pids');
    assert.equal(read('einsora', 'mine', 'cgroup.subtree_control'), '+memory +cpu +pids');
    const limits = ['memory.max', 'memory.swap.max', 'cpu.max', 'pids.max'];
    assert.deepEqual(
      limits.map((name) => readFileSync(join(folder, name), 'utf8')),
      [String(2 ** 30), '0', '150000 100000', '1024'],
    );
  });
});

test('version 2: figures, processes and kills are read from their files', () => {
  inTree((tree) => {
    const group = groupIn(tree);
    mkdirSync(group.memory, { recursive: true });
    const write = (name: string, text: string) => writeFileSync(join(group.memory, name), text);
    write('cpu.stat', 'usage_usec 1234567\nuser_usec 1\n');
    write('memory.current', '5000\n');
    write('memory.stat', 'anon 10\ninactive_file 1000\n');
    write('cgroup.procs', '0\n12\n34\n');
    write('memory.events', 'low 0\noom 3\noom_kill 2\noom_group_kill 0\n');
    assert.deepEqual(groupStats(group), { ...no_stats, cpu_ms: 1235, memory_bytes: 4000 });
    assert.deepEqual(groupPids(group), [12, 34]);
    assert.equal(oomKills(oomCounter(group)), 2);
  });
});

test('a group that is gone holds nothing and has no figures', () => {
  const group = groupIn('/nonexistent');
  assert.deepEqual(groupPids(group), []);
  assert.deepEqual(groupStats(group), { ...no_stats, cpu_ms: null, memory_bytes: null });
  assert.equal(oomKills(oomCounter(group)), 0);
});
