// A pickle alone, with the uses that a file of tensors makes of its values.
#include <mpt/hf/pickle.hpp>

#include "../support.hpp"
#include "../targets.hpp"

void fuzz::pickle(std::string_view input) {
  refused([&] {
    mpt::hf::pickle const read(input, "fuzz");
    using kind = mpt::hf::pickle::kind;
    auto const& root = read.value_of(read.root());
    if (root.type == kind::mapping) ensure(root.parts.size() % 2 == 0, "keys have values");
    for (auto const part : root.parts) {
      auto const& value = read.value_of(part);
      if (value.type != kind::tensor) continue;
      ensure(value.parts.size() == 3, "a tensor has a storage, extents and strides");
      ensure(read.value_of(value.parts[0]).type == kind::storage, "a tensor lies in a storage");
    }
  });
}
