// Exchanges over http and https, by libcurl if CMake found it.
#pragma once

#include <mpt/net/download.hpp>
#include <mpt/net/http.hpp>

namespace apps {

/// Empty in a build without the library, with which no http_client can be made.
[[nodiscard]] mpt::net::http_transport http_transport();

/// What downloads need. Waits between attempts are said on standard error. Throws in a build
/// without the library.
[[nodiscard]] mpt::net::network network();

}  // namespace apps
