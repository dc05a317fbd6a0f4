#!/usr/bin/env bash
# debian.sh SOURCE OUT CXX: the Debian package, made by CPack, installed by dpkg into a folder, used there, and (as root) removed.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
needs dpkg-deb
needs cpack
cmake --preset library -S "$source" -B "$out/build" -G Ninja > "$out/configure.log" 2>&1 ||
  { tail -n 20 "$out/configure.log"; fail "the preset library does not configure"; }
(cd "$out/build" && cpack -G DEB > "$out/cpack.log" 2>&1) || { tail -n 20 "$out/cpack.log"; fail "cpack made no package"; }
package=$out/build/libparallellm-dev_${version}_all.deb
[[ -f $package ]] || fail "cpack did not make $package but $(ls "$out/build/"*.deb)"
[[ $(dpkg-deb -f "$package" Version) == "$version" ]] || fail "the package has another version"

# dpkg installs into a folder with its own data base, so the system stays as it is; without root the files are unpacked.
root=$out/root
mkdir -p "$root/var/lib/dpkg/"{info,updates}
: > "$root/var/lib/dpkg/status"
dpkg_in_root() {
  dpkg --root="$root" --log=/dev/null --force-bad-path "$@" > "$out/dpkg.log" 2>&1 || { cat "$out/dpkg.log"; fail "dpkg $1 fails"; }
}
if ((EUID == 0)); then
  dpkg_in_root -i "$package"
else
  dpkg-deb -x "$package" "$root"
fi
build_consumer "$out/consumer" -DCMAKE_PREFIX_PATH="$root/usr"
grep -q "$root/usr/" "$out/consumer/CMakeCache.txt" || fail "the consumer found another installation"
if ((EUID == 0)); then
  dpkg_in_root -P libparallellm-dev
  [[ -z $(find "$root" -path "$root/var" -prune -o -type f -print) ]] || fail "files stay behind after its removal"
fi
# What it depends on exists in the distribution.
if command -v apt-get > /dev/null; then
  apt-get install -s "$package" > "$out/apt.log" 2>&1 || { tail -n 5 "$out/apt.log"; fail "apt-get would not install it"; }
fi
echo "$(basename "$package"): installed and used$( ((EUID == 0)) && echo ", and removed")"
