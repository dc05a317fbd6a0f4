// file_counts: the disk reads of this thread (counted in parallel/checkpoint/reader_test.cpp).
#pragma once

#include <cstddef>

namespace test {

inline thread_local int opened_files = 0;
inline thread_local std::size_t read_bytes = 0;  // by pread

}  // namespace test
