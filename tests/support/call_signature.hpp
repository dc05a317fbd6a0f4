// A call of a collective, as ranks tell each other of it.
#pragma once

#include <cstddef>

#include <parallel/comm/signature.hpp>
#include <parallel/core/call_site.hpp>

namespace test {

/// The fourth call: of `count` bf16, with rank 1, from here.
inline parallel::signature call_signature(parallel::operation_kind kind, std::size_t count) {
  parallel::operation op{.kind = kind, .type = parallel::dtype::bf16, .peer = 1, .count = count};
  op.caller = parallel::call_site::current();
  return signature_of(op, 4);
}

}  // namespace test
