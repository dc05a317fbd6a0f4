// The tables of packed documents.
#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/attention/document_tables.hpp>

namespace parallel::cuda {

// not by `launch`, which times it: it is a part of an attention, which is timed as a whole
void make_document_tables(stream& s, kernels::document_tables const& tables) {
  using body = kernels::document_tables;
  check(detail::start<body::threads>(s.get(), 1, body::shared_bytes, tables),
        "the tables of documents");
}

}  // namespace parallel::cuda
