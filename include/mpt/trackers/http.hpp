// http: what a client of a REST interface asks of an HTTP library.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <parallel/core/error.hpp>

namespace mpt::trackers {

/// A request to a tracker.
struct http_request {
  std::string method;  ///< GET, POST or PATCH
  std::string url;
  std::string body = {};  ///< JSON; of a GET empty
};

/// A tracker's answer.
struct http_answer {
  long status = 0;  ///< as 200 or 404
  std::string body;
};

/// No answer came; the message says why.
class no_answer : public parallel::error {
 public:
  using parallel::error::error;
};

/// Sends a request and waits for the answer. Throws no_answer, also soon after `is_cancelled`
/// returns true. It adds the user's credentials itself: no request, error or log holds them.
using http_client = std::function<http_answer(http_request const& request,
                                              std::function<bool()> const& is_cancelled)>;

/// Text of a server or a client for the user: control characters are shown as '?', long text is
/// cut.
[[nodiscard]] std::string shown_text(std::string_view text);

}  // namespace mpt::trackers
