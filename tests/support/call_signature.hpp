// The signature of a collective call, as ranks exchange it.
#pragma once

#include <cstddef>

#include <parallel/comm/signature.hpp>
#include <parallel/core/error.hpp>

namespace test {

/// The signature of call number 4 on `count` bf16 elements, with peer 1 and this call site.
inline parallel::signature call_signature(parallel::operation_kind kind, std::size_t count) {
  parallel::operation op{.kind = kind, .type = parallel::dtype::bf16, .peer = 1, .count = count};
  op.caller = parallel::call_site::current();
  return signature_of(op, 4);
}

}  // namespace test
