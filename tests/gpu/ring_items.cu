// The items of the exact ring model as kernels.
#include <parallel/device/cuda/launch.cuh>

#include "support/ring_items_cuda.hpp"

namespace test {

template <class Item>
struct run_items {
  item_index count;
  Item item;
  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    parallel::cuda::for_each_of_grid(b, static_cast<std::size_t>(count),
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
template void launch_items(stream&, item_index, items::square const&);
template void launch_items(stream&, item_index, items::square_backward const&);
template void launch_items(stream&, item_index, items::norm const&);
template void launch_items(stream&, item_index, items::norm_backward const&);
template void launch_items(stream&, item_index, items::gain const&);
template void launch_items(stream&, item_index, items::gain_gradient const&);
template void launch_items(stream&, item_index, items::loss const&);
template void launch_items(stream&, item_index, items::momentum const&);
template void launch_items(stream&, item_index, items::attend const&);
template void launch_items(stream&, item_index, items::attend_backward const&);
template void launch_items(stream&, item_index, items::attend_backward_keys const&);
template void launch_items(stream&, item_index, items::add_keys const&);

}  // namespace test
