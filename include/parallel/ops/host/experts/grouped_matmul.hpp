// grouped_matmul and its weight gradient on the host: one task, in which the products of all
// experts run one after the other, each on all threads.
#pragma once

#include <parallel/ops/experts/grouped_matmul.hpp>
#include <parallel/ops/host/matmul.hpp>

namespace parallel::host {

template <class T>
void run_operation(stream& s, ops::grouped_matmul_arguments<T> const& a) {
  s.enqueue({a.name}, [=, &s, threads = s.threads()] {
    for (index part = 0; part < a.parts(); ++part)
      detail::multiply(s.engine(), s.memory(), threads, a.product(part));
  });
}

template <class T>
void run_operation(stream& s, ops::grouped_matmul_weight_arguments<T> const& a) {
  s.enqueue({a.name}, [=, &s, threads = s.threads()] {
    for (index expert = 0; expert < a.parts(); ++expert)
      a.for_each_product(expert, [&](auto const& product) {
        detail::multiply(s.engine(), s.memory(), threads, product);
      });
  });
}

}  // namespace parallel::host
