// Cross entropy over a divided vocabulary on the meta device: four operations an element in each
// half, as in the undivided one.
#pragma once

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/sliced_cross_entropy.hpp>

namespace parallel::meta {

template <class A, class Logit>
void vocabulary_statistics_impl(stream& s, matrix_view<A> own, matrix_view<Logit const> logits,
                                vector_view<std::int32_t const>,
                                ops::sliced_cross_entropy_options) {
  s.touch(own, logits);
  s.count(4U * static_cast<std::uint64_t>(logits.size()));
}

template <class T, class Loss, class Logit>
void sliced_cross_entropy_impl(stream& s, matrix_view<T> dlogits, vector_view<Loss> losses,
                               vector_view<std::uint8_t> correct, matrix_view<Logit const> logits,
                               vector_view<std::int32_t const>,
                               tensor_view<accumulate_t<T> const, 3> all,
                               ops::sliced_cross_entropy_options) {
  s.touch(dlogits, losses, correct, logits, all);
  if (!dlogits.empty()) s.count(4U * static_cast<std::uint64_t>(logits.size()));
}

}  // namespace parallel::meta
