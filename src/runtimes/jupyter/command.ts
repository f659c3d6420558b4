/**
 * The command that serves JupyterLab, in the machine's own environment or in an image that has it.
 *
 * Invariants: pure; nothing secret stands in the argv; it opens one Unix socket, nothing on the
 * network, and its kernels talk over sockets too; it asks no server of its publisher for news; what
 * it keeps for itself lies in the workspace, what only this run needs outside of it.
 */
import type { JupyterEnvironment } from '../jupyter.ts';
import type { EngineMount } from '../runtime.ts';

export type JupyterCommand = {
  argv: string[];
  /** The user's own variables may replace these, */
  env: Record<string, string>;
  /** but not these. */
  own_env: Record<string, string>;
  mounts: EngineMount[];
};

const socket = '/run/einsora/web.sock';
/**
 * A kernel looks for the folder of a person's own packages when it begins: without it, what the
 * first cell installs could not be imported by the second. And nobody is asked for leave to fetch
 * news, which nothing here would fetch; whoever has a page config of their own keeps it.
 */
const no_news = '{"disabledExtensions":{"@jupyterlab/apputils-extension:announcements":true}}';
const prepared = `
mkdir -p "$(python3 -m site --user-site)" 2>/dev/null
page="$JUPYTER_CONFIG_DIR/labconfig/page_config.json"
[ -e "$page" ] || { mkdir -p "\${page%/*}" && echo '${no_news}' > "$page"; } 2>/dev/null
exec "$@"`;

/** `environment` is null in an image: then its `jupyter` is used, and its own PATH. */
export function jupyterCommand(
  environment: JupyterEnvironment | null,
  workspace: string,
): JupyterCommand {
  const program = environment?.program ?? ['jupyter', 'lab'];
  const own = environment?.env ?? {};
  const path = `${workspace}/.local/bin:${environment?.path ?? ''}:/usr/local/bin:/usr/bin:/bin`;
  return {
    argv: ['/bin/sh', '-c', prepared, 'notebook', ...program, ...settings(workspace)],
    env: {
      LANG: 'C.UTF-8',
      ...(environment === null ? {} : { PATH: path, ...pip }),
    },
    own_env: {
      HOME: workspace,
      JUPYTER_CONFIG_DIR: `${workspace}/.jupyter`,
      JUPYTER_DATA_DIR: `${workspace}/.local/share/jupyter`,
      JUPYTER_RUNTIME_DIR: '/tmp/jupyter',
      IPYTHONDIR: `${workspace}/.ipython`,
      TMPDIR: '/tmp',
      ...own,
    },
    mounts: environment?.mounts ?? [],
  };
}

/** What a person installs goes into the workspace: the environment is everybody's, and read-only. */
const pip = {
  PIP_USER: '1',
  PIP_BREAK_SYSTEM_PACKAGES: '1',
  PIP_ROOT_USER_ACTION: 'ignore',
  PIP_DISABLE_PIP_VERSION_CHECK: '1',
  USER: 'einsora',
  SHELL: '/bin/bash',
};

function settings(workspace: string): string[] {
  return [
    '--no-browser',
    // Root of a sandbox is nobody outside of it.
    '--allow-root',
    `--ServerApp.sock=${socket}`,
    '--ServerApp.sock_mode=0600',
    '--ServerApp.port_retries=0',
    // It is asked under the name of its own site, which the proxy in front has checked.
    '--ServerApp.allow_remote_access=True',
    `--ServerApp.root_dir=${workspace}`,
    '--ServerApp.terminals_enabled=True',
    '--ServerApp.quit_button=False',
    '--ServerApp.websocket_ping_interval=30000',
    '--ConnectionFileMixin.transport=ipc',
    // It would look for servers all over the PATH, and run what it finds.
    '--LanguageServerManager.autodetect=False',
    '--LabApp.news_url=None',
    '--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate',
    '--LabApp.extension_manager=readonly',
  ];
}
