// A pickle alone, with the uses that a file of tensors makes of its values.
#include <mpt/hf/pickle.hpp>

#include "../support.hpp"
#include "../targets.hpp"

void fuzz::pickle(std::string_view input) {
  refused([&] {
    mpt::hf::pickle const read(input, "fuzz");
    using kind = mpt::hf::pickle::kind;
    auto const& root = read.at(read.root());
    if (root.what == kind::mapping) ensure(root.parts.size() % 2 == 0, "keys have values");
    for (auto const part : root.parts) {
      auto const& value = read.at(part);
      if (value.what != kind::tensor) continue;
      ensure(value.parts.size() == 3, "a tensor has a storage, extents and strides");
      ensure(read.at(value.parts[0]).what == kind::storage, "a tensor lies in a storage");
    }
  });
}
