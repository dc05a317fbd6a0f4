#include <mpt/config/model/recompute.hpp>

namespace mpt {

block_recomputation recompute_all(std::size_t blocks) {
  return block_recomputation(blocks, {.block = true});
}

block_recomputation with_cheap_recomputation(block_recomputation parts, std::size_t blocks) {
  parts.resize(blocks);
  for (auto& block : parts) block.cheap = true;
  return parts;
}

}  // namespace mpt
