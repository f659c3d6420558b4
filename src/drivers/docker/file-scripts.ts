/**
 * What is done to files inside a container by its own shell, as its own user.
 *
 * Invariants: paths go in as arguments, never into a script's text; each script ends with 0, or
 * with 44 for what is not there, or says on its errors why not.
 */

/** One line for each entry: mode in hex, size, seconds of its change, ./name. */
export const list_script = `
[ -d "$1" ] || { [ -e "$1" ] && echo 'Not a directory' >&2 && exit 1; exit 44; }
cd -- "$1" && find . -mindepth 1 -maxdepth 1 -exec stat -c '%f %s %Y %n' '{}' +`;

/**
 * Takes the new content from its input beside the file that it will replace, of which it keeps the
 * old one until `put_script`. Prints where it put it.
 */
export const take_script = `
path=$1
if [ -L "$path" ]; then path=$(readlink -f -- "$path") || exit 44; fi
[ -d "$path" ] && echo 'Is a directory' >&2 && exit 1
folder=$(dirname -- "$path")
[ -d "$folder" ] || exit 44
umask 077
part="$folder/.$2.part"
cat > "$part" || { rm -f -- "$part"; exit 1; }
chmod "$3" -- "$part"`;

export const put_script = `
path=$1
if [ -L "$path" ]; then path=$(readlink -f -- "$path") || exit 44; fi
mv -f -- "$(dirname -- "$path")/.$2.part" "$path"`;

export const drop_script = `
path=$1
if [ -L "$path" ]; then path=$(readlink -f -- "$path") || exit 0; fi
rm -f -- "$(dirname -- "$path")/.$2.part"`;

export const make_folder_script = `
[ -d "$(dirname -- "$1")" ] || exit 44
mkdir -m 755 -- "$1"`;

export const remove_script = `
[ -e "$1" ] || [ -L "$1" ] || exit 44
if [ -d "$1" ] && [ ! -L "$1" ]; then rmdir -- "$1"; else rm -f -- "$1"; fi`;

export const rename_script = `
[ -e "$1" ] || [ -L "$1" ] || exit 44
[ -d "$(dirname -- "$2")" ] || exit 44
[ -d "$2" ] && [ ! -L "$2" ] && echo 'Is a directory' >&2 && exit 1
mv -f -- "$1" "$2"`;

export const missing_code = 44;

export type ListedFile = { name: string; bits: number; size: number; modified_s: number };

/** Reads what `list_script` printed. A line that is none of its own belongs to the name before. */
export function readListing(text: string): ListedFile[] {
  const files: ListedFile[] = [];
  for (const line of text.replace(/\n$/, '').split('\n')) {
    const match = /^([0-9a-f]{1,8}) (\d+) (-?\d+) \.\/(.+)$/.exec(line);
    const last = files.at(-1);
    if (match !== null) {
      const [, bits = '', size, modified_s, name = ''] = match;
      files.push({
        name,
        bits: Number.parseInt(bits, 16),
        size: Number(size),
        modified_s: Number(modified_s),
      });
    } else if (last !== undefined && line !== '') {
      last.name += `\n${line}`;
    }
  }
  return files;
}
