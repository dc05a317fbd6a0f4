// One tensor of a golden file.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <parallel/checkpoint/format/safetensors.hpp>
#include <support/golden/golden.hpp>

namespace test {

/// All elements of a tensor, converted to A.
template <class A>
[[nodiscard]] std::vector<A> golden_tensor(parallel::checkpoint::safetensors_file const& file,
                                           std::string const& name) {
  std::vector<A> out(static_cast<std::size_t>(file.at(name).size()));
  file.read(name, 0, std::span(out));
  return out;
}

}  // namespace test
