// The ring model's items on a GPU, for plain C++ compilers: a declaration, linked with
// tests/gpu/ring_items.cu.
#pragma once

#include <parallel/device/cuda/stream.hpp>

#include "support/ring/ring_items.hpp"

namespace test::items {

/// Enqueues item(i) for i in [0, count), with one thread for each item.
template <class Item>
void launch_items(parallel::cuda::stream& s, item_index count, Item const& item);

}  // namespace test::items
