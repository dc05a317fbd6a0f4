#!/usr/bin/env bash
# vcpkg.sh SOURCE OUT CXX: vcpkg installs the port of this checkout, and a consumer uses it. Where VCPKG_ROOT has vcpkg's
# scripts and no program, the program's calls of its scripts are made one by one.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[[ $(sed -n 's/.*"version-semver": "\(.*\)".*/\1/p' "$source/packaging/vcpkg/parallellm/vcpkg.json") == "$version" ]] ||
  fail "packaging/vcpkg/parallellm/vcpkg.json states another version than $version"
triplet=x64-linux
[[ $(uname -m) == aarch64 ]] && triplet=arm64-linux
installed=$out/installed
program=$(command -v vcpkg || echo "${VCPKG_ROOT-}/vcpkg")
if [[ -x $program ]]; then
  VCPKG_FORCE_SYSTEM_BINARIES=1 "$program" install parallellm --classic --triplet="$triplet" --x-install-root="$installed" \
    --overlay-ports="$source/packaging/vcpkg" --x-buildtrees-root="$out/trees" --x-packages-root="$out/packages" \
    --binarysource=clear > "$out/vcpkg.log" 2>&1 || { tail -n 30 "$out/vcpkg.log"; fail "vcpkg does not install the port"; }
elif [[ -n ${VCPKG_ROOT-} && -f $VCPKG_ROOT/scripts/ports.cmake ]]; then
  mkdir -p "$installed/$triplet"
  install_port() { # NAME FOLDER
    local configs
    configs=$(find "$installed" -name vcpkg-port-config.cmake | paste -sd ";")
    cmake -DCMD=BUILD -DPORT="$1" -DFEATURES=core -DCURRENT_PORT_DIR="$2" -DVCPKG_ROOT_DIR="$VCPKG_ROOT" \
      -DPACKAGES_DIR="$out/packages" -DBUILDTREES_DIR="$out/trees" -D_VCPKG_INSTALLED_DIR="$installed" \
      -DDOWNLOADS="$out/downloads" -DTARGET_TRIPLET="$triplet" -D_HOST_TRIPLET="$triplet" \
      -DTARGET_TRIPLET_FILE="$VCPKG_ROOT/triplets/$triplet.cmake" -DVCPKG_BASE_VERSION=2999-12-31 -DVCPKG_CONCURRENCY=1 \
      -DCMAKE_MAKE_PROGRAM="$(command -v ninja)" -DNINJA="$(command -v ninja)" -DGIT="$(command -v git)" \
      -DVCPKG_PORT_CONFIGS="$configs" \
      -DVCPKG_PLATFORM_TOOLSET=external -P "$VCPKG_ROOT/scripts/ports.cmake" > "$out/$1.log" 2>&1 ||
      { tail -n 30 "$out/$1.log"; fail "vcpkg's scripts do not install the port $1"; }
    cp -r "$out/packages/$1_$triplet/." "$installed/$triplet/"
  }
  install_port vcpkg-cmake "$VCPKG_ROOT/ports/vcpkg-cmake"
  install_port vcpkg-cmake-config "$VCPKG_ROOT/ports/vcpkg-cmake-config"
  install_port parallellm "$source/packaging/vcpkg/parallellm"
else
  skip "there is no vcpkg, and VCPKG_ROOT has no scripts of it"
fi
[[ -f $installed/$triplet/share/parallellm/copyright && ! -d $installed/$triplet/debug/include ]] ||
  fail "the port's files are not as vcpkg wants them"
build_consumer "$out/consumer" -DCMAKE_PREFIX_PATH="$installed/$triplet"
grep -q "$installed/$triplet/" "$out/consumer/CMakeCache.txt" || fail "the consumer found another installation"
echo "vcpkg: the port is installed and used"
