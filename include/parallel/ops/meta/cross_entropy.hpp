// cross_entropy on the meta device: scaling, difference, exp and sum are 4 operations an element,
// the gradient is 4 more. Labels are not looked at: every row counts.
#pragma once

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/cross_entropy.hpp>

namespace parallel::meta {

template <class T, class Loss, class Logit>
void cross_entropy_impl(stream& s, matrix_view<T> dlogits, vector_view<Loss> losses,
                        vector_view<std::uint8_t> correct, matrix_view<Logit const> logits,
                        vector_view<std::int32_t const>, ops::cross_entropy_options) {
  s.touch(dlogits, losses, correct, logits);
  s.count((dlogits.empty() ? 4U : 8U) * static_cast<std::uint64_t>(logits.size()));
}

}  // namespace parallel::meta
