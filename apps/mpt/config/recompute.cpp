#include <mpt/config/recompute.hpp>

namespace mpt {

block_recomputation recompute_all(std::size_t blocks) {
  return block_recomputation(blocks, {.block = true});
}

block_recomputation with_cheap(block_recomputation given, std::size_t blocks) {
  given.resize(blocks);
  for (auto& block : given) block.cheap = true;
  return given;
}

}  // namespace mpt
