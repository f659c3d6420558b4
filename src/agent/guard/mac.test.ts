import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  judgeMacOwner,
  parseBattery,
  parseConsole,
  parseHidIdle,
  parseMemoryPressure,
  parseThermal,
} from './mac.ts';

test('idle time of a Mac is the shortest that ioreg tells, in nanoseconds', () => {
  const said = `
+-o IOHIDSystem  <class IOHIDSystem, id 0x100000339, registered, matched, active>
    | {
    |   "HIDIdleTime" = 5375167333
    |   "HIDParameters" = {"HIDClickTime"=500000000}
    | }
      |   "HIDIdleTime" = 98375167333
`;
  assert.equal(parseHidIdle(said), 5375);
  assert.equal(parseHidIdle(''), null);
});

test('a locked screen is somebody away, and a console without anybody is nobody', () => {
  const users = (more: string) =>
    `    "IOConsoleUsers" = ({"kCGSSessionOnConsoleKey"=${more},"kCGSSessionUserNameKey"="ada"})`;
  assert.deepEqual(parseConsole(users('Yes')), { is_signed_in: true, is_locked: false });
  const locked = parseConsole(users('Yes,"CGSSessionScreenIsLocked"=Yes'));
  assert.deepEqual(locked, { is_signed_in: true, is_locked: true });
  const empty = parseConsole('    "IOConsoleUsers" = ()');
  assert.deepEqual(empty, { is_signed_in: false, is_locked: false });
  assert.equal(parseConsole('nothing'), null);
  assert.equal(judgeMacOwner(0, empty).idle_ms, 'nobody');
  assert.ok(Number(judgeMacOwner(0, locked).idle_ms) > 3600_000);
  assert.deepEqual(judgeMacOwner(5000, null), { idle_ms: 5000, has_screen: true });
  assert.deepEqual(judgeMacOwner(null, null), { idle_ms: null, has_screen: true });
});

test('power of a Mac is what pmset says it draws from', () => {
  const on_battery =
    "Now drawing from 'Battery Power'\n" +
    ' -InternalBattery-0 (id=22020195)\t64%; discharging; 5:12 remaining present: true\n';
  assert.deepEqual(parseBattery(on_battery), { source: 'battery', percent: 64 });
  const plugged =
    "Now drawing from 'AC Power'\n" +
    ' -InternalBattery-0 (id=22020195)\t100%; charged; 0:00 remaining present: true\n';
  assert.deepEqual(parseBattery(plugged), { source: 'mains', percent: 100 });
  assert.deepEqual(parseBattery("Now drawing from 'AC Power'\n"), {
    ...{ source: 'mains', percent: null },
  });
  assert.equal(parseBattery('pmset: no'), null);
});

test('heat of a Mac is how far it slows its processor down', () => {
  const quiet =
    'Note: No thermal warning level has been recorded\n' +
    'Note: No performance warning level has been recorded\n' +
    'Note: No CPU power status has been recorded\n';
  assert.equal(parseThermal(quiet), 0);
  assert.equal(parseThermal('\tCPU_Speed_Limit \t= 100\n'), 0);
  assert.equal(parseThermal('\tCPU_Speed_Limit \t= 80\n'), 96);
  assert.equal(parseThermal('\tCPU_Speed_Limit \t= 30\n'), 110);
  assert.equal(parseThermal(''), null);
});

test('memory of a Mac is short in three words', () => {
  assert.deepEqual(['1\n', '2\n', '4\n', 'x'].map(parseMemoryPressure), [
    ...(['normal', 'warning', 'critical', null] as const),
  ]);
});
