// The items of the exact ring model as kernels.
#include <parallel/device/cuda/launch.cuh>

#include "support/ring/ring_items_cuda.hpp"

namespace test::items {

template <class Item>
struct run_items {
  item_index count;
  Item item;
  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    parallel::cuda::for_each_in_grid(b, static_cast<std::size_t>(count),
                                     [this](std::size_t i) { item(static_cast<item_index>(i)); });
  }
};

template <class Item>
void launch_items(parallel::cuda::stream& s, item_index count, Item const& item) {
  namespace detail = parallel::cuda::detail;
  detail::launch(s, "an item of the ring model",
                 detail::blocks_for(static_cast<std::size_t>(count)), run_items<Item>{count, item});
}

using parallel::cuda::stream;
template void launch_items(stream&, item_index, square const&);
template void launch_items(stream&, item_index, square_backward const&);
template void launch_items(stream&, item_index, norm const&);
template void launch_items(stream&, item_index, norm_backward const&);
template void launch_items(stream&, item_index, gain const&);
template void launch_items(stream&, item_index, gain_gradient const&);
template void launch_items(stream&, item_index, loss const&);
template void launch_items(stream&, item_index, momentum const&);
template void launch_items(stream&, item_index, attend const&);
template void launch_items(stream&, item_index, attend_backward const&);
template void launch_items(stream&, item_index, attend_backward_keys const&);
template void launch_items(stream&, item_index, add_keys const&);

}  // namespace test::items
