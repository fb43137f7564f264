// A table as text with commas.
#pragma once

#include <QAbstractItemView>
#include <QString>

namespace ui {

// As it is shown: heads of the columns that are not hidden, then the rows in their order.
QString csv_of(const QAbstractItemView& table);

}  // namespace ui
