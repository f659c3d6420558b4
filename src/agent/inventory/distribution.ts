/**
 * Which system this is, and how a program is installed on it.
 *
 * Invariants: a fix is a command that can be pasted on this very distribution, with sudo where the
 * user is not root; on a system that is not known, the fix names the program instead.
 */
export type PackageManager = 'apt' | 'dnf' | 'zypper' | 'pacman' | 'apk' | 'brew';

export type Distribution = {
  os: string;
  version: string;
  packages: PackageManager | null;
  /** Empty for root. */
  sudo: '' | 'sudo ';
  /** Services are started by systemd; without it by an init script, where there is one. */
  systemd: boolean;
};

/** What to install, by package manager; null where that system has it not. */
export type PackageNames = Record<PackageManager, string | null>;

export const packageNames = {
  qemu: {
    apt: 'qemu-system-x86',
    dnf: 'qemu-kvm',
    zypper: 'qemu-x86',
    pacman: 'qemu-base',
    apk: 'qemu-system-x86_64',
    brew: 'qemu',
  },
  docker: {
    apt: 'docker.io',
    dnf: 'moby-engine',
    zypper: 'docker',
    pacman: 'docker',
    apk: 'docker',
    brew: 'colima docker',
  },
  /** From NVIDIA's own package source. */
  toolkit: {
    apt: 'nvidia-container-toolkit',
    dnf: 'nvidia-container-toolkit',
    zypper: 'nvidia-container-toolkit',
    pacman: 'nvidia-container-toolkit',
    apk: null,
    brew: null,
  },
  nvidia_driver: {
    apt: 'nvidia-driver',
    dnf: 'akmod-nvidia xorg-x11-drv-nvidia-cuda',
    zypper: 'nvidia-open-driver-G06-signed-kmp-default nvidia-compute-utils-G06',
    pacman: 'nvidia-open nvidia-utils',
    apk: null,
    brew: null,
  },
} as const satisfies Record<string, PackageNames>;

const families: Record<string, PackageManager> = {
  debian: 'apt',
  ubuntu: 'apt',
  fedora: 'dnf',
  rhel: 'dnf',
  suse: 'zypper',
  opensuse: 'zypper',
  arch: 'pacman',
  alpine: 'apk',
};

const installers: Record<PackageManager, string> = {
  apt: 'apt-get install -y',
  dnf: 'dnf install -y',
  zypper: 'zypper install -y',
  pacman: 'pacman -S --noconfirm',
  apk: 'apk add',
  brew: 'brew install',
};

/** Reads /etc/os-release; `text` is null where there is none. */
export function readDistribution(
  text: string | null,
  { is_root, systemd }: { is_root: boolean; systemd: boolean },
): Distribution {
  const fields = new Map<string, string>();
  for (const line of (text ?? '').split('\n')) {
    const match = /^([A-Z_]+)=(.*)$/.exec(line.trim());
    if (match?.[1] !== undefined && match[2] !== undefined) fields.set(match[1], unquote(match[2]));
  }
  const ids = [fields.get('ID') ?? '', ...(fields.get('ID_LIKE') ?? '').split(' ')];
  const packages = ids.map((id) => families[id]).find((family) => family !== undefined);
  return {
    os: (fields.get('NAME') ?? 'Linux').slice(0, 64),
    version: (fields.get('VERSION') ?? fields.get('VERSION_ID') ?? '').slice(0, 128),
    packages: packages ?? null,
    sudo: is_root ? '' : 'sudo ',
    systemd,
  };
}

export function macDistribution(version: string): Distribution {
  return {
    os: 'macOS',
    version: version.trim().slice(0, 128),
    packages: 'brew',
    sudo: '',
    systemd: false,
  };
}

/** The command that installs a program here, or a sentence where it is not known. */
export function installCommand(here: Distribution, names: PackageNames, what: string): string {
  const name = here.packages === null ? null : names[here.packages];
  if (here.packages === null || name === null) return `install ${what}`;
  return `${here.sudo}${installers[here.packages]} ${name}`;
}

/** The command that installs NVIDIA's driver here. */
export function installDriver(here: Distribution): string {
  if (here.os === 'Ubuntu') return `${here.sudo}ubuntu-drivers install`;
  const command = installCommand(here, packageNames.nvidia_driver, "NVIDIA's driver");
  if (here.packages === 'apt') return `${command}   (from Debian's non-free component)`;
  return here.packages === 'dnf' ? `${command}   (from RPM Fusion)` : command;
}

/** The command that starts (or restarts) a service here. */
export function serviceCommand(
  here: Distribution,
  verb: 'start' | 'restart',
  name: string,
): string {
  if (here.systemd) return `${here.sudo}systemctl ${verb} ${name}`;
  if (here.packages === 'apk') return `${here.sudo}rc-service ${name} ${verb}`;
  return `${here.sudo}service ${name} ${verb}`;
}

function unquote(text: string): string {
  return /^(["']).*\1$/.test(text) ? text.slice(1, -1) : text;
}
