#!/usr/bin/env bash
# conan.sh SOURCE OUT CXX: Conan 2 makes the package and builds and runs its test_package.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
needs conan
[[ $(conan --version) == "Conan version 2"* ]] || skip "$(conan --version) is not Conan 2"
export CONAN_HOME=$out/home
conan profile detect > "$out/profile.log" 2>&1 || { cat "$out/profile.log"; fail "conan detects no compiler"; }
conan remote disable '*' > "$out/remote.log" 2>&1  # nothing is fetched
conan create "$source/packaging/conan" -s compiler.cppstd=20 -s build_type=Debug -c tools.cmake.cmaketoolchain:generator=Ninja \
  -c tools.cmake.cmake_layout:test_folder="$out/test" --test-folder="$source/packaging/conan/test_package" > "$out/conan.log" 2>&1 ||
  { tail -n 30 "$out/conan.log"; fail "conan create ended with an error"; }
grep -q '^y = 3.000000 x + -1.000000$' "$out/conan.log" || fail "the consumer did not run"
grep -q "parallellm/$version" "$out/conan.log" || fail "the package has another version than $version"
[[ ! -e $source/packaging/conan/test_package/build ]] || fail "conan wrote into the checkout"
echo "conan create: parallellm/$version, its test_package built and run"
