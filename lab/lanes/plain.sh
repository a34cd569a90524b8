# Sourced by lane: builds and installs Cairn for a user who is not root, in a home directory. If
# root starts it, the user is nobody, since root may access everything.
mkdir -p "$keep/plain"
as_user=()
if [ "$(id -u)" -eq 0 ]; then
  has_program setpriv || skip "setpriv is missing (on Debian: apt-get install util-linux)"
  as_user=(setpriv --reuid=nobody --regid=nogroup --clear-groups --no-new-privs)
  chown nobody:nogroup "$keep/plain" || skip "$keep/plain cannot be nobody's"
fi
home=$keep/plain
"${as_user[@]}" test -w "$home" 2>/dev/null ||
  skip "nobody cannot come to $home; set CAIRN_LANE_DIR to a directory that everyone may enter"

[ -z "$fresh" ] || rm -rf "$home"/* "$home"/.[!.]*
title "A clone in $home"
[ -z "$(git -C "$root" status --porcelain)" ] || loud "What is not committed is not part of the clone."
rm -rf "$home/cairn.new"
git clone --quiet --no-hardlinks "$root" "$home/cairn.new" && git -C "$home/cairn.new" remote remove origin ||
  die "cannot clone $root"
# Builds of an earlier run are used again: they are beside the clone.
rm -rf "$home/cairn" && mv "$home/cairn.new" "$home/cairn"
for file in /etc/pip.conf "${HOME:-/nowhere}/.config/pip/pip.conf"; do
  if [ -f "$file" ]; then mkdir -p "$home/.config/pip" && cp "$file" "$home/.config/pip/pip.conf"; fi
done
[ ${#as_user[@]} -eq 0 ] || chown -R nobody:nogroup "$home"

settings=(HOME="$home" USER=nobody PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 TERM="${TERM:-dumb}"
  CAIRN_STATE_STRIDE="${CAIRN_STATE_STRIDE:-11}")
while IFS= read -r name; do
  settings+=("$name=${!name}")
done < <(compgen -e | grep -iE '^(PIP_.*|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|(https?|no|all)_proxy)$')
rm -f "$home/record.json"
start=$SECONDS
(cd "$home" && exec "${as_user[@]}" env -i "${settings[@]}" nice bash "$home/cairn/lab/lanes/plain-inside.sh")
status=$?
record_inside "$home"
title "lane plain ended with status $status after $(since $start)"
exit $status
