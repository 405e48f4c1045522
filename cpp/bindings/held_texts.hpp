// What: a sequence of Python's texts, held, and views of those that are asked for, as they are
// read.
//
// A view is asked for with the GIL or without: a plain text is looked at where Python has it; one
// of Latin, Greek or Cyrillic letters with accents or capitals is copied letter for letter; and
// what else has to be put in lower case, or stripped of what nobody sees, is left to Python.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <deque>
#include <vector>

#include "epibias/echo_shares.hpp"

namespace epibias::bindings {

namespace py = pybind11;

class HeldTexts {
  public:
    // Throws std::invalid_argument for what is no sequence, or a text itself.
    HeldTexts(const char* argument, const py::object& texts);

    [[nodiscard]] std::size_t size() const { return texts_.size(); }

    // Lives as long as this; throws std::invalid_argument for what is no text.
    [[nodiscard]] TextView view(std::size_t row);

  private:
    const char* argument_;
    py::tuple texts_;
    // Changed with the GIL alone.
    std::deque<py::object> read_;
    std::deque<std::vector<unsigned char>> folded_;
};

}  // namespace epibias::bindings
