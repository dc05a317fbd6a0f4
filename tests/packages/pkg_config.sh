#!/usr/bin/env bash
# pkg_config.sh SOURCE OUT CXX PREFIX: a program built with nothing but a compiler and pkg-config, from an installation
# that was moved after it was made.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
needs pkg-config
cp -r "$4" "$out/moved"
PKG_CONFIG_LIBDIR=$(dirname "$(find "$out/moved" -name parallellm.pc)"):$(pkg-config --variable pc_path pkg-config)
export PKG_CONFIG_LIBDIR

[[ $(pkg-config --modversion parallellm) == "$version" ]] || fail "parallellm.pc states another version than $version"
! pkg-config --exists 'parallellm >= 99' || fail "parallellm.pc satisfies a version that does not exist"
read -ra flags < <(pkg-config --cflags --libs parallellm)
"$compiler" -std=c++20 -O0 "$source/tests/consumer/parallel/main.cpp" -o "$out/consumer" "${flags[@]}"
check_program "$out/consumer"

# Every other file names packages that pkg-config has, and flags that link a program.
echo 'int main() {}' > "$out/empty.cpp"
for file in "$(dirname "$(find "$out/moved" -name parallellm.pc)")"/parallellm-*.pc; do
  name=$(basename "$file" .pc)
  pkg-config --print-errors --exists "$name" || fail "$name.pc requires what is not installed"
  read -ra flags < <(pkg-config --cflags --libs "$name")
  if [[ $name == parallellm-mpt ]]; then
    "$compiler" -std=c++20 -O0 "$source/tests/consumer/mpt/main.cpp" -o "$out/mpt" "${flags[@]}"
    [[ $("$out/mpt") == "mpt-125m has 125311488 parameters" ]] || fail "the program of mpt printed something else"
    continue
  fi
  "$compiler" -std=c++20 "$out/empty.cpp" -o "$out/empty" -Wl,--no-as-needed "${flags[@]}" || fail "$name: ${flags[*]} does not link"
done
# Folders that are given by absolute paths, with a prefix elsewhere; CMake wants none of them inside the source's folder.
absolute=$(mktemp -d)
trap 'rm -rf "$absolute"' EXIT
for folders in "lib $absolute/headers" "$absolute/lib include" "$absolute/lib $absolute/headers"; do
  read -r lib headers <<< "$folders"
  rm -rf "${absolute:?}"/*
  { cmake -S "$source" -B "$absolute/build" -DPARALLELLM_APPS=OFF -DPARALLELLM_TESTS=OFF -DPARALLELLM_BENCH=OFF -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_INSTALL_PREFIX="$absolute/prefix" -DCMAKE_INSTALL_LIBDIR="$lib" -DCMAKE_INSTALL_INCLUDEDIR="$headers" &&
    cmake --install "$absolute/build" --component development; } > "$out/absolute.log" 2>&1 || { tail "$out/absolute.log"; fail "no installation into $folders"; }
  PKG_CONFIG_LIBDIR=$(dirname "$(find "$absolute/prefix" "$absolute/lib" -name parallellm.pc 2> /dev/null)")
  read -ra flags < <(pkg-config --cflags parallellm)
  "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror "$source/tests/consumer/parallel/main.cpp" "${flags[@]}" ||
    fail "an installation into $folders is not found by ${flags[*]}"
  [[ $(pkg-config --variable libdir parallellm) -ef $(dirname "$PKG_CONFIG_LIBDIR") ]] || fail "libdir of $folders: $(pkg-config --variable libdir parallellm)"
done
echo "built and run by pkg-config $(pkg-config --version)"
