// Pictures of the window held against recorded ones.
//
// Both are halved in size as often as it takes to be coarse: a cell is the mean of 8 x 8 pixels.
// Font rasterisers differ by a few percent of a cell; a panel that has moved by a few pixels, or an
// area of another colour, is much more. Cells differ where a channel of the mean differs by more
// than `cell_tolerance`; pictures, where more than `picture_tolerance` of all cells do.
#pragma once

#include <QImage>
#include <QString>

namespace ui::test {

inline constexpr int cell = 8;                     // pixels each way
inline constexpr int cell_tolerance = 24;          // of 255
inline constexpr double picture_tolerance = 0.01;  // share of the cells

QImage coarse(const QImage& picture);

// Share of cells that differ, 0 to 1; 1: the sizes differ.
double difference(const QImage& coarse_a, const QImage& coarse_b);

// Holds a picture against tests/ui/golden/NAME.png. Returns what is wrong; empty: nothing. What was
// painted is written to pictures/NAME.png beside the program then. With STEPCAST_RECORD_PICTURES
// set the golden is written instead.
QString check_picture(const QImage& picture, const QString& name);

}  // namespace ui::test
